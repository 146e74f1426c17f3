"""``mansard report`` over several places and ``mansard data merge``, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from mansard.cli.__main__ import run
from mansard.core.records import NamedWindow
from tests.analytics.board_runs import write_board
from tests.analytics.factory import (
    fma_trials,
    machine,
    manifest,
    measurement,
    program,
    write_networks,
    write_programs,
    write_run,
    write_two_modes,
)
from tests.analytics.gpu_factory import write_orin
from tests.analytics.score_factory import layer, score, write_scores
from tests.cli.cells import row
from tests.cli.decide_runs import answer
from tests.cli.in_process import mansard


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two folders, ``a`` and ``b``, with a run each of one machine by two versions."""
    for name, version in (("a", "0.1.0"), ("b", "0.2.0")):
        run = manifest(name, n_trials=22, on=machine("Example CPU"))
        run = msgspec.structs.replace(run, tool_version=version)
        write_run(tmp_path / name / name, run, fma_trials(name))
    return tmp_path


def test_versions_refuse_in_one_line_and_mix_if_told(folders: Path) -> None:
    places = ("--runs", "a", "--runs", "b")
    refused = mansard("report", *places, cwd=folders)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "mansard: a, b: Example was measured by versions of Mansard 0.1.0 (run a) and 0.2.0 "
        "(run b); report them from folders of their own, or mix them with --allow-mixed\n"
    )
    assert not (folders / "a/report.html").exists()
    mixed = mansard("report", *places, "--allow-mixed", "--json", cwd=folders)
    assert mixed.returncode == 0
    found = json.loads(mixed.stdout)
    assert found["report"] == "a/report.html"
    assert (folders / "a/report.html").is_file()
    assert [mode["run_id"] for mode in found["summary"]["modes"]] == ["a", "b"]
    assert any(
        note.startswith("mixed, as --allow-mixed says") for note in found["summary"]["notes"]
    )
    assert "note: mixed, as --allow-mixed says" in mixed.stderr


def test_merge_and_report_what_was_merged(folders: Path) -> None:
    done = mansard("merge", "a", "b", "--into", "fleet", "--json", cwd=folders)
    counts = {
        "schema": "mansard/merge",
        "version": 1,
        "place": "fleet",
        "n_new": 2,
        "n_grown": 0,
        "n_same": 0,
    }
    assert json.loads(done.stdout) == counts, done.stderr
    found = mansard("report", "--runs", "fleet", "--allow-mixed", "--json", cwd=folders)
    assert found.returncode == 0, found.stderr
    assert len(json.loads(found.stdout)["summary"]["modes"]) == 2
    assert (folders / "fleet/report.html").is_file()


def test_what_cannot_be_is_one_line(folders: Path) -> None:
    for words, code, line in (
        (("report", "--runs", "ftp://x/y"), 1, "ftp://x/y: ftp:// is not an object store that can"),
        (("merge", "a", "--into", "b"), 2, "'b' is a folder of runs, no dataset; merge into"),
    ):
        result = mansard(*words, cwd=folders)
        assert result.returncode == code
        assert result.stderr.startswith(f"mansard: {line}")
        assert len(result.stderr.splitlines()) == 1


def test_an_interrupted_merge_says_what_is_kept(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press_ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mansard.api.data.merge_runs", press_ctrl_c)
    assert run(["--debug", "merge", str(folders / "a"), "--into", str(folders / "all")]) == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("interrupted; merged runs are complete, the same command merges the rest")


def test_networks_and_programs_that_were_run_are_tables(tmp_path: Path) -> None:
    failed = measurement("nets", (), model="large", failure="it needs more memory than there is")
    write_networks(tmp_path / "runs", [measurement("nets", (0.08,) * 9), failed])
    prompt = NamedWindow(
        name="prompt", start_s=100.0, window_s=0.5, energy=None, unknown={"energy": "too short"}
    )
    ran = program("programs", (2.0, 2.1), power_w=10.0, windows=(prompt, prompt))
    write_programs(tmp_path / "runs", [ran])
    done = mansard("report", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    short = " ".join(done.stdout.split())
    assert "all batch 1, fp32, onnxruntime cpu, 2c, measured" in short
    assert "it needs more memory than there is" in short
    # Energies 20 and 21 J.
    assert row(done.stdout, "llm")[-2:] == ["20.5 J", "10.0 W"]
    done = mansard("report", "--all", cwd=tmp_path)
    networks, _, programs = done.stdout.partition("Programs that were run; ±: 95 %")
    assert networks.startswith("Networks that were run; ±")
    assert "it needs more memory than there is" in " ".join(networks.split())
    # A window has no CPU time of its own, and two stand in each run.
    assert row(programs, "llm")[3:5] == ["20.5 J", "10.0 W"]
    assert row(programs, "llm [prompt]")[2:4] == ["–", "unknown"]
    assert row(programs, "llm [prompt]")[-1] == "2"
    assert "p99" not in networks  # too few calls: no column of unknowns
    assert "calibration" not in done.stdout  # nothing is predicted
    assert (
        "note: large: run, but not used for predictions: it needs more memory than there is"
        in done.stderr
    )


def test_what_a_calibration_makes_of_measured_networks_is_a_table(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_two_modes(runs)
    scores = [
        score(name, [layer(0, work, 1000)]) for name, work in (("a", 10**9), ("b", 3 * 10**9))
    ]
    write_scores(runs, scores)
    rows = [
        measurement("nets", (seconds_s,) * 9, model=each.model, model_hash=each.model_hash)
        for each, seconds_s in zip(scores, (0.08, 0.2), strict=True)
    ]
    write_networks(runs, rows)
    done = mansard("report", "--all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _, _, tables = done.stdout.partition("Errors of modelled times, before and after a calibration")
    assert "totals, each network by the others" in tables
    assert "What a calibration adds to the roofs" in tables
    assert "Factors of the time at the roof" not in tables  # no layers were timed


def test_a_bandwidth_names_the_working_sets_that_it_rests_on(tmp_path: Path) -> None:
    write_orin(tmp_path / "runs")
    done = mansard("report", "--all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ceilings, _, _ = done.stdout.partition("Kernels compared with the limit")
    # Three sets of L2 ran alike, and two of main memory; a peak has none.
    assert "512 KiB to 2 MiB" in row(ceilings, "L2")
    assert "48 MiB to 64 MiB" in row(ceilings, "DRAM")
    assert "–" in row(ceilings, "int8 tensor")


def test_work_and_traffic_of_scored_networks_are_printed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    write_two_modes(runs)
    write_scores(runs, [score("a", [layer(0, 3 * 10**9, 7_500_000)])])
    done = mansard("report", "--all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "GFLOP 3.000, traffic 7.500 MB" in " ".join(done.stdout.split())


def test_a_network_in_more_precisions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    write_board(runs)
    words = ("report", "alexnet", "--precision", "fp16,int8", "--runs", runs)
    code, _, err = answer(capsys, *words)
    assert code == 0, err
    figure = ("figure", "roofline", "alexnet", "--precision", "fp16", "--runs", runs)
    assert answer(capsys, *figure, "-o", tmp_path / "fig.svg")[0] == 0
    assert "in fp16;" in (tmp_path / "fig.txt").read_text("utf-8")
    code, _, err = answer(capsys, "report", "--precision", "fp16", "--runs", runs)
    assert code == 2
    assert err == (
        "mansard: --precision has no effect without a network; name one: mansard report "
        f"--runs {runs} MODEL --precision fp16\n"
    )
