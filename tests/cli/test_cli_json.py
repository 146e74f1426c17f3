"""What ``--json`` prints: more than a hundred outputs, each as its schema says; errors too."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from mansard.cli.app import make_app
from mansard.cli.schemas import encoded, json_schema, output_types
from mansard.estimator import zoo
from mansard.simulator import create_board, running
from tests.analytics.factory import write_two_modes
from tests.analytics.hierarchical_samples import made_up, write_npz
from tests.cli.decide_runs import CLOCKS, published_runs
from tests.cli.in_process import mansard
from tests.cli.json_outputs import check_document, check_output
from tests.cli.test_cli_schedule import TWO
from tests.device.tegrastats_lines import LINES

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")
SEEN = "seen --precision fp16 --runs published"
ANSWERS = [
    *(f"modes --board {name}" for name in BOARDS),
    *(f"plan --board {name} --next 2" for name in BOARDS),
    *(f"image fit --board {name}" for name in BOARDS),
    *(f"image libraries --board {name}" for name in BOARDS[:2]),
    *(f"restore --board {name}" for name in BOARDS),
    *(f"telemetry log{at}" for at in range(len(LINES))),
    *(f"telemetry log{at} --samples" for at in range(len(LINES))),
    *(f"score {each.name}" for each in zoo.CONVOLUTIONS),
    *(f"models show {name}" for name in ("alexnet", "lstm", zoo.CONVOLUTIONS[0].name)),
    *(f"recommend {SEEN} --minimise {goal}" for goal in ("energy", "latency", "edp", "power")),
    *(f"recommend {SEEN} --minimize energy --max-latency {ms}ms" for ms in (1, 6, 20)),
    f"recommend {SEEN} --mode modes.csv",
    "recommend --runs published --workload workload.toml",
    "batch seen --runs published --mode measured",
    "batch alexnet --runs runs --batch 1,8",
    "plan --runs published --mode modes.csv --next 3",
    "compare runs runs --mode 1c --other-mode 2c",
    "report --runs runs --output report.html",
    "report --runs published --output report.html",
    f"offload tune samples.npz --local {SEEN} --offload-latency 40ms±2ms --min-accuracy 0.85 "
    "--decision-latency 1us±0",
    "schedule problem.toml",
    "merge runs published --into merged",
    "import published/table.csv --citation A --device B --runs imported",
    "telemetry log0 log1 --interval 1s",
    "bench --dry-run --mode 1c --profile brief --no-networks",
    "contention --dry-run --mode 2c --profile brief",
    "models list",
    "models write written alexnet lstm",
    "doctor",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs, tables, logs and boards that the commands are about."""
    folder = tmp_path_factory.mktemp("json")
    write_two_modes(folder / "runs")
    published_runs(folder / "published")
    for at, line in enumerate(LINES.values()):
        (folder / f"log{at}").write_text(f"{line}\n" * 2, "utf-8")
    (folder / "workload.toml").write_text('[[network]]\nmodel = "seen"\nrate = "30/s"\n', "utf-8")
    rows = [f"new{gpu}-{emc},{gpu},{emc}" for gpu, emc in CLOCKS]
    (folder / "modes.csv").write_text("\n".join(["mode,gpu_mhz,emc_mhz", *rows]) + "\n", "utf-8")
    write_npz(folder / "samples.npz", made_up(500))
    (folder / "problem.toml").write_text(TWO, "utf-8")
    for name in BOARDS:
        create_board(name, folder)
    with running(folder / BOARDS[0]):
        yield folder


def schema_of(line: str) -> str:
    """The name of the schema of what ``mansard`` prints with these words."""
    first, second, *_ = (*line.split(), "")
    if "--dry-run" in line:
        return "dry-run"
    if "--samples" in line:
        return "telemetry-samples"
    return f"{first}-{second}" if first in {"image", "models", "offload"} else first


SCHEMAS = sorted({*map(schema_of, ANSWERS)})


def test_the_outputs_are_a_hundred() -> None:
    assert len(ANSWERS) > 100
    assert len(SCHEMAS) > 20


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_hundred_outputs_keep_to_their_schemas(folder: Path, schema: str) -> None:
    for line in filter(lambda line: schema_of(line) == schema, ANSWERS):
        if line.startswith("contention") and (os.cpu_count() or 1) < 2:
            continue  # it takes two cores
        done = mansard(*line.split(), "--json", cwd=folder)
        assert done.returncode == 0, (line, done.stderr)
        assert json.loads(done.stdout)["schema"] == f"mansard/{schema}"  # ``mansard`` checked it


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
    for name, each in (inner or {}).items():
        yield from leaves(each, (*path, name))


def test_a_usage_error_of_every_command_is_json_beside_the_line() -> None:
    paths = list(leaves(typer.main.get_command(make_app())))
    assert len(paths) > 30
    for path in paths:
        done = mansard(*path, "--json", "--no-such-option")
        (document,) = [json.loads(done.stdout)]
        assert (done.returncode, check_document(document)) == (2, "error"), path
        assert document["error"]["kind"] == "UsageError"
        assert document["error"]["where"] == " ".join(("mansard", *path))
        assert "--no-such-option" in document["error"]["what"]
        assert "--no-such-option" in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "error"),
    [
        (
            "report --runs gone",
            1,
            (
                "InputError",
                "there is no such folder",
                "gone",
                "measure first, with 'mansard bench --runs gone'",
            ),
        ),
        (
            "recommend --modes 15W",
            2,
            (
                "UsageError",
                "No such option: --modes",
                "mansard recommend",
                "mansard recommend --help",
            ),
        ),
        ("score gone.onnx", 1, ("StorageError", "No such file or directory", "gone.onnx", None)),
    ],
)
def test_an_error_says_what_where_and_what_to_do(
    line: str, code: int, error: tuple[str | None, ...], tmp_path: Path
) -> None:
    done = mansard(*line.split(), "--json", cwd=tmp_path)
    kind, what, where, fix = error
    told = json.loads(done.stdout)["error"]
    assert (done.returncode, told["exit_code"]) == (code, code)
    assert (told["kind"], told["where"]) == (kind, where)
    assert what in told["what"]
    assert fix is None or told["fix"] == fix
    assert done.stderr.count("\n") == (4 if kind == "UsageError" else 1)


def test_what_is_not_whole_says_both(tmp_path: Path) -> None:
    zoo.write("lstm", tmp_path)
    (tmp_path / "broken.onnx").write_bytes(b"junk")
    done = mansard("score", ".", "--json", "--dim", "sequence=4", "--jobs", "1", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert [each["score"]["model"] for each in document["scores"]] == ["lstm"]
    assert [each["where"] for each in document["errors"]] == ["broken.onnx"]
    # A log that is none after one that is: its lines came, and then the error.
    (tmp_path / "log").write_text(f"{next(iter(LINES.values()))}\n", "utf-8")
    (tmp_path / "none").write_text("nothing\n", "utf-8")
    done = mansard("telemetry", "log", "none", "--samples", "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert check_document(document) == "telemetry-samples"
    assert (done.returncode, document["error"]["exit_code"]) == (1, 1)
    assert len(document["samples"]) == 1
    assert document["error"]["where"] == "none"


def test_no_answer_has_an_exit_code_of_its_own(folder: Path) -> None:
    for limit, code in (("1ms", 3), ("60ms", 0)):
        asked = ("recommend", *SEEN.split(), "--max-latency", limit)
        assert mansard(*asked, cwd=folder).returncode == 0
        assert mansard(*asked, "--check", cwd=folder).returncode == code
        done = mansard(*asked, "--check", "--json", cwd=folder)
        assert (done.returncode, check_output(done.stdout)) == (code, "recommend")


def test_the_environment_names_a_board(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANSARD_BOARD", str(folder / "tx2"))
    told = json.loads(mansard("modes", "--json").stdout)
    assert (told["module"], told["is_simulated"]) == ("Jetson TX2", True)
    named = json.loads(mansard("modes", "--json", "--board", folder / "thor").stdout)
    assert named["soc"] != told["soc"]
    config = folder / "agx-orin/etc/nvpmodel.conf"
    assert mansard("modes", "--config", config).returncode == 0  # and not "exclude each other"


RECORDED = Path(__file__).with_name("schemas.txt")


def test_the_schemas_that_ship_are_those_of_the_records() -> None:
    """``MANSARD_REWRITE=1`` records them anew: a change of one is a change for its readers."""
    schemas = {name: json_schema(name, fields) for name, fields in output_types().items()}
    # A line for each schema and each definition in one: its digest, and its fields.
    lines = {_line(f"mansard/{name}", schema) for name, schema in schemas.items()}
    for schema in schemas.values():
        lines |= {_line(name, part) for name, part in schema["$defs"].items()}
    text = "\n".join(sorted(lines)) + "\n"
    if os.environ.get("MANSARD_REWRITE"):
        RECORDED.write_text(text, "utf-8")
    assert text == RECORDED.read_text("utf-8")
    for name, schema in schemas.items():
        assert mansard("schema", name).stdout.encode() == encoded(schema)


def _line(name: str, schema: dict[str, Any]) -> str:
    digest = hashlib.sha256(encoded(schema)).hexdigest()
    return " ".join((name, digest[:16], *schema.get("properties", {})))


def test_a_schema_is_found_by_what_an_output_says_and_others_are_refused() -> None:
    done = mansard("schema", "mansard/merge", "--json")
    assert (done.returncode, json.loads(done.stdout)["title"]) == (0, "mansard/merge")
    done = mansard("schema", "none")
    assert done.returncode == 2
    names = "batch, build, compare, "
    assert done.stderr.startswith(f"mansard: there is no schema 'none'; use one of {names}")
    assert done.stderr.count("\n") == 1
