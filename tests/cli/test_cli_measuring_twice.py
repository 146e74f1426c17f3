"""What was measured before, as a user meets it: labels, variables, files, and a run more."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from mansard.core.records import Manifest, ProgramRun, quality
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows, write_rows
from tests.cli.decide_runs import answer
from tests.inference.small_networks import perceptron
from tests.undisturbed import without_doubts

pytestmark = pytest.mark.usefixtures("before_others")
Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def measure(tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures a program that prints a variable; returns its exit code and what was said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    (tmp_path / "nap.sh").write_text("cat data; echo nap $NAP\n")
    (tmp_path / "data").write_text("one\n")

    def run(options: str = "", command: str = "sh nap.sh") -> tuple[int, str]:
        words = ["measure", "--profile", "brief", "--repeat", "1", *shlex.split(options)]
        code, _, err = answer(capsys, *words, "--", *shlex.split(command))
        return code, err

    return run


def wait_for_the_next_second() -> None:
    """Rows have the second of their start; of those of the same second none is the newest."""
    time.sleep(1 - time.time() % 1)


def programs(runs: Path = Path("runs")) -> list[ProgramRun]:
    paths = sorted(runs.glob("*/programs.jsonl"))
    return [row for path in paths for row in read_rows(path, ProgramRun).rows]


def labels() -> list[str]:
    return sorted(read_document(path, Manifest).label for path in Path("runs").glob("*/*.json"))


def test_a_variable_that_changed_is_said_and_env_makes_it_part(
    measure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAP", "0.1")
    assert measure()[0] == 0
    without_doubts(Path("runs"))
    monkeypatch.setenv("NAP", "0.5")
    code, said = measure()
    assert code == 0
    assert "already measured, nothing to do; to measure it again, add --again; NAP has chan" in said
    assert "is part of it with --env NAME (it was measured 20" in said
    assert len(programs()) == 1
    for nap in ("0.1", "0.5", "0.5"):
        monkeypatch.setenv("NAP", nap)
        assert measure("--env NAP")[0] == 0
        without_doubts(Path("runs"))
    assert sorted(row.environment.get("NAP", "") for row in programs()) == ["", "0.1", "0.5"]


def test_a_file_that_it_depends_on_makes_it_another_program(measure: Any) -> None:
    assert measure("--depends data")[0] == 0
    without_doubts(Path("runs"))
    assert "already measured" in measure("--depends data")[1]
    Path("data").write_text("two\n")
    assert "already measured" not in measure("--depends data")[1]
    assert [row.depends for row in programs()] == [("data",), ("data",)]
    assert len({row.program_hash for row in programs()}) == 2


def test_labels_are_measured_apart_and_the_newest_counts(measure: Any, capsys: Capsys) -> None:
    assert measure()[0] == 0
    for label in ("v1", "v2", "v1"):
        wait_for_the_next_second()
        assert measure(f"--label {label}")[0] == 0
    assert labels() == ["", "v1", "v2"]
    code, out, err = answer(capsys, "report", "--all")
    assert code == 0
    assert "rests on label v2, the newest; runs without a label, label v1: in the tables" in err
    assert [word in out for word in ("v1", "v2")] == [True, True]


@pytest.mark.parametrize("label", ["a\nb", "\x1b[31m", " a", "x" * 81, "\u202eabc"])
def test_what_is_not_a_label_is_refused_in_a_line(label: str, measure: Any) -> None:
    code, said = measure(f"--label {shlex.quote(label)}")
    assert code == 2
    assert "is not a line of 1 to 80 characters" in said
    assert len(said.splitlines()) == 1
    assert not Path("runs").exists()


def test_one_more_run_is_kept_beside_the_first_and_counted_once(
    measure: Any, capsys: Capsys
) -> None:
    for options in ("", "--again", "--again"):
        wait_for_the_next_second()
        assert measure(options)[0] == 0
    assert len(programs()) == 3
    # On a busy machine the newest may not be known well: then an older one counts.
    counted = max(programs(), key=lambda row: (*quality(row)[:3], row.started_utc))
    code, out, err = answer(capsys, "report", "--json")
    assert code == 0
    assert "measured more than once: sh nap.sh in" in err
    assert "(3 times, that of" in err
    (shown,) = json.loads(out)["summary"]["programs"]
    assert shown["run_id"] == counted.run_id


def test_a_disturbed_row_is_measured_again_without_being_asked(measure: Any) -> None:
    assert measure()[0] == 0
    (path,) = Path("runs").glob("*/programs.jsonl")
    (row,) = programs()
    disturbed = row.__class__(
        **{name: getattr(row, name) for name in row.__struct_fields__ if name != "disturbances"},
        disturbances=("a game ran on the GPU",),
    )
    write_rows(path, ProgramRun, [disturbed])
    code, said = measure()
    assert code == 0
    assert "measured again: sh nap.sh (disturbed: a game ran on the GPU)" in said
    assert "1 row improved" in said
    (better,) = programs()
    attempts = read_rows(path.with_name("attempts.jsonl"), ProgramRun).rows
    assert attempts == (disturbed, better)
    without_doubts(Path("runs"))
    assert "already measured" in measure()[1]


def test_a_network_has_variables_labels_and_runs_more(
    tmp_path: Path, capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORT_TRY", "3")
    perceptron(tmp_path / "mlp.onnx")
    words = ["measure", str(tmp_path / "mlp.onnx"), "--runs", str(tmp_path / "runs")]
    words += ["--profile", "brief", "--local", "--threads", "1", "--json"]
    for options in ([], ["--again"], ["--label", "v2"], ["--env", "ORT_TRY", "--env", "GONE"]):
        code, out, err = answer(capsys, *words, *options)
        assert code == 0
    assert len(list((tmp_path / "runs").glob("*/measurements.jsonl"))) == 4
    assert "--env: GONE is not set" in err
    (row,) = (one["row"] for one in json.loads(out)["rows"])
    assert row["options"]["$ORT_TRY"] == "3"
    assert any("ORT_TRY=3" in times["engine"] for times in json.loads(out)["times"])
