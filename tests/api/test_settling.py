"""Recommendations that measure what settles them, on a simulated board."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mansard import api
from mansard.analytics.data.opening import open_runs
from mansard.core.errors import UsageError
from mansard.sweeps.reporter import SilentReporter
from tests.analytics.factory import program, write_programs, write_two_modes
from tests.cli.decide_runs import answer

pytestmark = pytest.mark.usefixtures("before_all")

# A program that no clock of the simulated board changes: it takes 0.3 s in each mode.
PROGRAM = ("sh", "-c", "sleep 0.3")


class Notes(SilentReporter):
    """Keeps what was noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def asked(board: Path, tmp_path: Path) -> api.PredictionRequest:
    """A question about the program in three modes, of which one is measured."""
    runs = tmp_path / "runs"
    where = {"board": board, "runs": runs, "profile": "brief"}
    api.measure_program(
        api.ProgramRequest(command=PROGRAM, name="naps", mode="30W", n_runs=3, **where)  # type: ignore[arg-type]
    ).check()
    return api.PredictionRequest(
        runs=(str(runs),),
        networks=(api.NetworkRequest(name="naps"),),
        modes="15W,30W,MAXN",
        board=board,
    )


def modes_of(request: api.PredictionRequest) -> set[str]:
    return {run.mode_read_back.name for run in open_runs(request.runs).all_manifests}


# No run of the program keeps the first limit, and even a late one keeps the second. The answer to
# the first is open until it is measured: as far as is known of programs, MAXN may take that little.
OPEN = api.Wanted(minimise="latency", max_latency_s=0.24)
KEPT = api.Wanted(minimise="latency", max_latency_s=30.0)


def test_an_open_answer_is_measured_until_it_is_definite(asked: api.PredictionRequest) -> None:
    (before,) = api.recommend(asked, OPEN)
    assert before.verdict == "uncertain"
    assert before.measure_next is not None
    notes = Notes()
    settled = api.settle(asked, OPEN, reporter=notes, profile="brief")
    if any("does not count" in line for line in notes.lines):
        pytest.skip("something else on this machine disturbed what was measured")
    (after,) = settled.recommendations
    assert after.verdict == "infeasible"
    assert settled.failure is None
    first = before.measure_next.candidate.mode
    assert settled.measured[0].mode == first
    assert modes_of(asked) == {"30W", *(mode.mode for mode in settled.measured)}
    assert f"measuring naps in {first}, 1 of at most 5 modes" in notes.lines


def test_a_definite_answer_is_not_measured(asked: api.PredictionRequest) -> None:
    settled = api.settle(asked, KEPT)
    assert settled.recommendations[0].verdict == "feasible"
    assert settled.measured == ()
    assert modes_of(asked) == {"30W"}


def test_measurements_stop_at_the_stated_number(asked: api.PredictionRequest) -> None:
    with pytest.raises(UsageError, match="cannot measure 0 modes"):
        api.settle(asked, api.Wanted(), n_most=0)
    settled = api.settle(asked, OPEN, n_most=1, profile="brief")
    assert len(settled.measured) == 1
    assert len(modes_of(asked)) == 2


def test_another_machine_is_not_measured_and_a_note_says_so(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path / "runs")
    row = program("programs", (2.0, 2.01, 2.02), workload="my LLM", command=("false",))
    write_programs(runs, [row], 1)
    elsewhere = api.PredictionRequest(
        runs=(str(runs),), networks=(api.NetworkRequest(name="my LLM"),)
    )
    notes = Notes()
    settled = api.settle(elsewhere, api.Wanted(minimise="latency", max_latency_s=1.5), None, notes)
    assert settled.measured == ()
    assert settled.recommendations[0].verdict == "uncertain"
    (line,) = [line for line in notes.lines if "remains uncertain" in line]
    assert line.startswith(
        "note: my LLM on Example remains uncertain: the board is not this machine; "
    )


class Interrupting(SilentReporter):
    """Ctrl-C as the second measurement begins."""

    def note(self, line: str) -> None:
        if "2 of at most" in line:
            raise KeyboardInterrupt


def test_an_interrupt_leaves_what_was_measured(asked: api.PredictionRequest) -> None:
    # So sure that one more mode does not tell of the third.
    wanted = replace(OPEN, probability=0.999)
    with pytest.raises(KeyboardInterrupt):
        pytest.fail(str(api.settle(asked, wanted, reporter=Interrupting(), profile="brief")))
    assert len(modes_of(asked)) == 2


def test_the_command_measures_and_prints_the_answer_alone(
    asked: api.PredictionRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("recommend", "naps", "--runs", asked.runs[0], "--board", asked.board)
    limits = ("--mode", asked.modes, "--minimise", "latency", "--max-latency", "240ms")
    code, out, err = answer(capsys, *words, *limits, "--measure", "1", "--json")
    assert code == 0, err
    (found,) = json.loads(out)["recommendations"]
    assert found["network"] == "naps"
    assert len(modes_of(asked)) == 2
    assert "1 of at most 1 modes" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--measure", "2", "--dask", "local"), "--measure excludes --dask"),
        (("--local",), "--local has no effect without --measure"),
        (("--measure", "0"), "Invalid value for '--measure'"),
        (("--measure", "1", "--workload", "mix.toml"), "--workload excludes --measure"),
    ],
)
def test_options_that_exclude_each_other(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    code, _, err = answer(capsys, "recommend", *words)
    assert code == 2
    assert says in err
