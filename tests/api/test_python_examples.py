"""The examples of docs/use/python.md, executed: they give what the commands print with --json."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard import api
from mansard.simulator import create_board, running
from tests.analytics.factory import write_two_modes
from tests.analytics.hierarchical_samples import made_up, write_npz
from tests.cli.decide_runs import CLOCKS, document, published_runs
from tests.cli.test_cli_schedule import TWO
from tests.device.tegrastats_lines import LINES

pytestmark = pytest.mark.usefixtures("before_others")

PAGE = Path(__file__).resolve().parents[2] / "docs/use/python.md"
BENCH, CELL = "# takes a minute", "# a cell"


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the page takes for there: runs, a table, a log, a workload, modes, a board."""
    folder = tmp_path_factory.mktemp("python")
    write_two_modes(folder / "runs")
    (published_runs(folder / "published") / "table.csv").rename(folder / "table.csv")
    (folder / "tegrastats.log").write_text(f"{LINES['TX2 r32']}\n" * 3, encoding="utf-8")
    (folder / "workload.toml").write_text('[[network]]\nmodel = "seen"\nrate = "30/s"\n', "utf-8")
    rows = [f"new{gpu}-{emc},{gpu},{emc}" for gpu, emc in CLOCKS]
    (folder / "modes.csv").write_text("\n".join(["mode,gpu_mhz,emc_mhz", *rows]) + "\n", "utf-8")
    write_npz(folder / "samples.npz", made_up(2000))
    (folder / "problem.toml").write_text(TWO, "utf-8")
    create_board("agx-orin", folder)
    return folder


@pytest.fixture(scope="module")
def names(folder: Path) -> dict[str, Any]:
    """The names of the page after all of its blocks."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch, running(folder / "agx-orin"):
        patch.chdir(folder)
        for block in blocks():
            if block.startswith(BENCH):
                continue
            exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - the page is our own
    return names


def plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


SEEN = ("seen", "--precision", "fp16", "--runs", "published")
EXAMPLES: list[tuple[tuple[str, ...], Callable[[dict[str, Any]], object]]] = [
    (
        ("score", "networks/resnet18.onnx", "--batch", "1,8"),
        lambda names: {
            "scores": [
                {"score": each, "totals": api.totals(each)} for each in names["scored"].scores
            ],
            "errors": [],
        },
    ),
    (
        ("bench", "--dry-run", "--mode", "1c", "--profile", "brief"),
        lambda names: {"boards": names["planned"]},
    ),
    (
        ("report", "--runs", "runs", "--output", "report.html"),
        lambda names: {"report": names["reported"].path, "summary": names["reported"].summary},
    ),
    (("telemetry", "tegrastats.log", "--interval", "1s"), lambda names: {
        "summaries": names["logged"][:1]
    }),
    (
        ("recommend", *SEEN, "--max-latency", "20ms"),
        lambda names: {"recommendations": names["recommended"], "mixes": ()},
    ),
    (
        ("recommend", "--runs", "published", "--workload", "workload.toml"),
        lambda names: {"recommendations": (), "mixes": names["mixes"]},
    ),
    (("batch", "resnet18", "--runs", "runs", "--mode", "measured"), lambda names: {
        "batches": names["batches"].to_dicts()
    }),
    (
        ("offload", "tune", "samples.npz", "--local", *SEEN, "--offload-latency", "40ms±2ms",
         "--min-accuracy", "0.85", "--decision-latency", "1us±0"),
        lambda names: names["offloads"],
    ),
    (
        ("plan", "--runs", "published", "--mode", "modes.csv", "--next", "3"),
        lambda names: {"plans": [names["plan"]]},
    ),
    (
        ("compare", "runs", "runs", "--mode", "1c", "--other-mode", "2c"),
        lambda names: names["compared"],
    ),
    (
        ("modes", "--board", "agx-orin"),
        lambda names: {"machine": None, **plain(names["listing"])},
    ),
    (("restore", "--board", "agx-orin"), lambda names: {
        "boards": [{"board": None, "restored": names["restored"], "lines": ()}]
    }),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), EXAMPLES, ids=[each[0][0] for each in EXAMPLES])
def test_an_example_gives_what_the_command_prints(
    arguments: tuple[str, ...],
    expected: Callable[[dict[str, Any]], object],
    names: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    with running(folder / "agx-orin"):
        printed = document(capsys, *arguments)
    assert {name: printed.pop(name) for name in ("schema", "version")}["version"] == 1
    assert printed == plain(expected(names))


def test_tables_are_imported_and_merged_as_by_the_commands(
    names: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    where = ("--citation", "made up", "--device", "Jetson Madeup", "--runs", "published")
    assert document(capsys, "import", "table.csv", *where)["tables"] == plain(names["imported"])
    again = document(capsys, "merge", "runs", "published", "--into", "merged")
    merged = names["merged"]
    assert (again["n_same"], again["n_new"]) == (merged.n_new, 0)


def test_a_schedule_is_that_of_the_command(
    names: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    printed, found = document(capsys, "schedule", "problem.toml"), plain(names["scheduled"])
    for each in (printed, found):  # how long the search took differs
        each["best"]["solve_s"] = 0
        each["baselines"] = [one | {"solve_s": 0} for one in each["baselines"]]
    assert printed == {"schema": "mansard/schedule", "version": 1, **found}
    # b has 6 ms left where it runs, and a at most 2 on the other one.
    assert names["changed"].found.makespan_s == pytest.approx(6e-3)


def test_checks_are_those_of_doctor(
    names: dict[str, Any],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    with running(folder / "agx-orin"):
        printed = document(capsys, "doctor", "--board", "agx-orin")
    assert [each["name"] for each in printed["checks"]] == [each.name for each in names["checks"]]


@pytest.mark.slow
def test_the_bench_of_the_page_gives_what_report_prints(
    names: dict[str, Any],
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (each for each in blocks() if each.startswith(BENCH))
    inside = {"api": api, "notes": names["notes"], "path": folder / names["path"]}
    exec(compile(block, str(PAGE), "exec"), inside)  # noqa: S102 - the page is our own
    printed = document(capsys, "report", "--runs", "runs")
    assert printed["summary"] == plain(inside["done"].report.summary)


def test_every_function_of_the_page_is_there() -> None:
    for name in set(re.findall(r"\b(?:api|m)\.([A-Za-z_]+)\(", PAGE.read_text("utf-8"))):
        assert getattr(api, name) is not None


def test_a_notebook_shows_a_table_and_a_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is in the extra dev")
    from nbformat.v4 import new_code_cell, new_notebook

    cells = ["import mansard as m", *(block for block in blocks() if block.startswith(CELL))]
    notebook = new_notebook(cells=list(map(new_code_cell, cells)))  # type: ignore[no-untyped-call]
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    table, chart = (cell.outputs[-1]["data"] for cell in notebook.cells[1:])
    assert "<td>squeezenet1_1</td>" in table["text/html"]
    assert "vegaEmbed" in chart["text/html"]


def test_all_that_the_api_lists_can_be_imported() -> None:
    for name in dir(api):
        assert getattr(api, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'measure'"):
        _ = api.measure  # type: ignore[attr-defined]
