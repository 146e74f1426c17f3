"""Every function of ``mansard.api`` with arguments that it cannot have: one line, no raw error."""

from __future__ import annotations

import inspect
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace as replaced
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, get_origin

import msgspec
import pytest

from mansard import api
from mansard.analytics.data.quantities import joules
from mansard.api.arguments import checked, hints_of
from mansard.api.deciding.problem_files import read_problem
from mansard.core.errors import MansardError, MissingLibrary, UsageError
from mansard.core.records.base import Record
from mansard.sweeps.reporter import format_duration
from tests.cli.test_cli_schedule import TWO

FUNCTIONS = [name for name in dir(api) if inspect.isfunction(inspect.unwrap(getattr(api, name)))]
# They list or restore what this machine has: only their types are tried.
REAL = {"doctor", "restore", "restore_hosts", "demo", "demo_simulated", "watch"}


class Odd:
    """Of no type that any function takes."""

    def __repr__(self) -> str:
        return "Odd()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "problem.toml").write_text(TWO, "utf-8")
    (folder / "empty").mkdir()
    return folder


def values(folder: Path) -> dict[str, Any]:
    """What is tried in the place of each argument, and of each field of a request."""
    return {
        "odd": Odd(),
        "text": "x",
        "empty text": "",
        "integer": 5,
        "below 0": -1,
        "huge": 10**400,
        "nan": float("nan"),
        "infinite": float("inf"),
        "none": None,
        "dictionary": {},
        "empty list": [],
        "odd list": [Odd()],
        "texts": ["x", "x"],
        "missing file": folder / "missing",
        "folder": folder / "empty",
        "missing files": [folder / "missing"],
        "folders": [folder / "empty"],
        "nul": Path("a\0b"),
    }


def fitting(folder: Path) -> dict[str, Any]:
    """An argument of the right type by the name of its parameter; of a request by its function.

    No board is there and no file, so nothing is measured where a wrong argument is taken.
    """
    missing = folder / "missing"
    sweep = {"runs": folder / "runs", "board": missing}
    measured = api.MeasureRequest(**sweep, models=("squeezenet1_1",))  # type: ignore[arg-type]
    runs = api.PredictionRequest(runs=(str(missing),))
    plan = api.PlanRequest(runs=missing)
    problem = folder / "problem.toml"
    return {
        "accelerators": ["gpu"],
        "address": "127.0.0.1:0",
        "alone": api.LayerSettings(),
        "board": missing,
        "caption": "kernels",
        "devices": ["cpu"],
        "duration_s": 1.0,
        "exports": [missing],
        "first": missing,
        "folder": folder / "out",
        "form": "csv",
        "high": 1.0,
        "hosts": ["nobody@invalid."],
        "into": str(folder / "merged"),
        "kernels": [],
        "kind": "time",
        "amount.kind": "latency",
        "is_wide.kind": "spread",
        "locations": [str(missing)],
        "log": "log",
        "logs": [missing],
        "low": 1.0,
        "machine": None,
        "mappings": [],
        "mode": str,
        "models": ["squeezenet1_1"],
        "n_bytes": 1.0,
        "name": "x",
        "networks": ["squeezenet1_1"],
        "now_s": 0.0,
        "option": "--option",
        "import_tables.origin": api.TableOrigin(citation="x", device="x"),
        "import_counters.origin": api.ExportOrigin(device="x", citation="x"),
        "parts": [],
        "path": missing,
        "problem": read_problem(problem),
        "batch.request": runs,
        "bench.request": api.BenchRequest(**sweep),  # type: ignore[arg-type]
        "count_networks.request": api.CountRequest(**sweep, models=("gru",)),  # type: ignore[arg-type]
        "dry_run.request": api.BenchRequest(**sweep),  # type: ignore[arg-type]
        "dry_run_contention.request": api.SweepRequest(**sweep),  # type: ignore[arg-type]
        "export.request": api.ExportRequest(source="missing:net", output=folder / "net.onnx"),
        "tune_offload.request": api.TuneRequest(samples=folder / "missing.npz"),
        "layers.model": "squeezenet1_1",
        "build.request": measured,
        "measure_contention.request": api.SweepRequest(**sweep),  # type: ignore[arg-type]
        "measure_layers.request": measured,
        "measure_networks.request": measured,
        "measure_program.request": api.ProgramRequest(**sweep, command=("true",)),  # type: ignore[arg-type]
        "plan.request": plan,
        "predict.request": runs,
        "recommend.request": runs,
        "recommend_workload.request": runs,
        "run_mappings.request": api.MultiRequest(**sweep),  # type: ignore[arg-type]
        "settle.request": runs,
        "figure.request": api.FigureRequest(kind="roofline", runs=(str(folder / "none"),)),
        "schedule.request": api.ScheduleRequest(problem=problem, time_limit_s=0.1),
        "rows": [],
        "runs": missing,
        "measured_contention.runs": [missing],
        "scores": [],
        "second": missing,
        "share": 0.5,
        "states": [],
        "sums": [],
        "tables": [missing],
        "target": io.BytesIO(),
        "text": "x",
        "texts": [],
        "time_s": 1.0,
        "unit": "s",
        "value": 1.0,
        "wanted": api.Wanted(),
        "workload": missing,
    }


def arguments(name: str, folder: Path) -> dict[str, Any]:
    """Right ones for the parameters without a default; records of results are left empty."""
    by_name = fitting(folder)
    function = inspect.unwrap(getattr(api, name))
    given = {}
    for parameter in inspect.signature(function).parameters.values():
        own = f"{name}.{parameter.name}"
        if own in by_name or (parameter.name in by_name and parameter.default is parameter.empty):
            given[parameter.name] = by_name.get(own, by_name.get(parameter.name))
        elif parameter.default is parameter.empty:
            given[parameter.name] = empty_record(hints_of(function)[parameter.name])
    return given


def empty_record(hint: Any) -> Any:
    """A record whose type alone is right, or no records."""
    if get_origin(hint) is not None:
        return []
    assert hasattr(hint, "__struct_fields__"), f"no row of fitting has a {hint}"
    names = [name for name in hint.__struct_fields__ if name != "unknown"]
    reasons = {"unknown": dict.fromkeys(names, "not given")} if issubclass(hint, Record) else {}
    return hint(**dict.fromkeys(names), **reasons)


def called(function: Callable[..., Any], given: dict[str, Any]) -> str:
    """The line of the error; empty where there is none. Any other exception is raised."""
    line = ""
    try:
        result = function(**given)
        if isinstance(result, Iterator):
            list(islice(result, 2))
        elif isinstance(result, AbstractContextManager):
            with result:
                pass
    except MansardError as error:
        line = str(error)
    return line


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_argument_is_a_raw_error(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    function = getattr(api, name)
    right = arguments(name, folder)
    is_of_results = any(map(is_empty, right.values()))
    for parameter in inspect.signature(function).parameters:
        assert f"{parameter} is Odd Odd()" in called(function, {**right, parameter: Odd()})
        if name not in REAL and not is_of_results:
            for case, value in values(folder).items():
                with note(f"{name}({parameter}={case})"):
                    assert "\n" not in called(function, {**right, parameter: value})


def is_empty(record: Any) -> bool:
    names = set(getattr(record, "__struct_fields__", ())) - {"unknown"}
    return bool(names) and all(getattr(record, name) is None for name in names)


REQUESTS = sorted(
    name for name in FUNCTIONS if "request" in inspect.signature(getattr(api, name)).parameters
)


@pytest.mark.parametrize("name", REQUESTS)
def test_no_field_of_a_request_is_a_raw_error(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    function = getattr(api, name)
    right = arguments(name, folder)
    request: Any = right["request"]
    kind: Any = type(request)
    replace: Any = msgspec.structs.replace if hasattr(request, "__struct_fields__") else replaced
    for field in hints_of(kind):
        changed = replace(request, **{field: Odd()})
        line = called(function, {**right, "request": changed})
        assert f"request.{field} is Odd Odd()" in line
        for case, value in values(folder).items():
            if (field, case) == ("board", "none"):  # this machine: it would be measured
                continue
            with note(f"{name}({field}={case})"):
                called(function, {**right, "request": replace(request, **{field: value})})


@contextmanager
def note(case: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.args = (f"{case}: {error}",)
        raise


FRAMES = """
import sys
from pathlib import Path
from mansard.api.arguments import checked
from mansard.api.deciding.candidate_modes import find_modes
for known in (None, [], 1):
    if known == 1:
        import polars
        known = polars.DataFrame()
    try:
        checked(find_modes)("all", Path(sys.argv[1]), None, known)
    except Exception as error:
        print(type(error).__name__, str(error)[:40])
"""


def test_a_frame_is_taken_whether_its_library_was_imported_before_or_not(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRAMES, str(tmp_path / "gone")],
        capture_output=True,
        text=True,
        check=True,
    )
    nothing, listed, frame = done.stdout.splitlines()
    assert listed.startswith("UsageError find_modes: known is list []")
    assert nothing == frame
    assert "known" not in frame


def test_a_difference_may_be_below_0_and_a_time_not() -> None:
    assert checked(joules)(-2.0).startswith(
        "-2.00"
    )  # ``value`` says no unit: it may be a difference
    with pytest.raises(UsageError, match=r"format_duration: duration_s is -2.0; give a finite"):
        checked(format_duration)(-2.0)


def _importing() -> Iterator[int]:
    yield 1
    import_module("polars.no_such_part")


def test_a_generator_names_a_missing_library_as_other_functions_do() -> None:
    numbers = checked(_importing)()
    assert next(numbers) == 1
    with pytest.raises(MissingLibrary, match="this needs polars, which is not installed"):
        next(numbers)
