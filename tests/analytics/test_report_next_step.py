"""The next command of a report, and the machine that it names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.next_step import NextStep, next_step
from mansard.analytics.pages.results import compute
from mansard.core.records import ModelScore
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores

OWN = score("net", [layer(0, 1_280_000_000, 10**6)])
SHIPPED = score("resnet18", [layer(0, 1_280_000_000, 10**6)])


def step_after(folder: Path, network: ModelScore) -> NextStep:
    """The step after one network ran in one mode."""
    runs = write_two_modes(folder)
    shutil.rmtree(runs / "run-1c")
    write_scores(runs, [network])
    times_s = (0.0125,) * 9
    row = measurement("nets", times_s, model=network.model, model_hash=network.model_hash, batch=1)
    write_networks(runs, [row])
    return next_step(compute(ingest(runs)))


def test_after_shipped_networks_comes_the_reader_s_own(tmp_path: Path) -> None:
    step = step_after(tmp_path, SHIPPED)
    assert (step.title, step.line("runs")) == ("Add your own network", "mansard bench model.onnx")


def test_after_an_own_network_come_other_modes(tmp_path: Path) -> None:
    step = step_after(tmp_path, OWN)
    assert (step.title, step.line("runs")) == ("Measure other modes", "mansard bench --mode all")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("", "mansard bench --mode all --runs r (on Jetson Orin Nano)"),
        (" --host user@board", "mansard bench --mode all --runs r --host user@board"),
    ],
)
def test_a_command_for_a_board_names_it(options: str, line: str) -> None:
    command = "mansard bench --mode all"
    step = NextStep(what="Measure", command=command, about="here", where="Jetson Orin Nano")
    assert step.line("r", options) == line
    assert step.title == "Measure, on Jetson Orin Nano"
