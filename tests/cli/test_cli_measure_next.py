"""The command that ``mansard recommend`` proposes: for a network, a file and a program."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.names import display_name
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.scaling.set_aside import SetAside
from mansard.api import NetworkRequest, PredictionRequest, Wanted, recommend
from mansard.api.deciding.measuring_words import again_command
from mansard.api.deciding.next_measurement import find_measurement
from mansard.core.records import NamedWindow
from tests.analytics.factory import (
    ONE_CORE,
    TWO_CORES,
    fma_trials,
    machine,
    manifest,
    measurement,
    program,
    stream_trials,
    write_networks,
    write_programs,
    write_run,
    write_two_modes,
)
from tests.cli.decide_runs import document
from tests.cli.recommendation_questions import NANO_MODES, nano, tables

ASKED = ("--minimise", "latency")


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[str]:
    (found,) = document(capsys, "recommend", *arguments, *ASKED)["recommendations"]
    return shlex.split(found["measure_next"]["command"])


def test_a_network_that_is_only_modelled_is_to_be_measured_where_it_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_two_modes(tmp_path / "my runs")
    words = ["mansard", "measure", "alexnet", "--mode", "2c", "--batch", "1"]
    # The runs are of another machine than this one.
    elsewhere = ["--host", "user@board"]
    assert command(capsys, "alexnet", "--runs", runs) == [*words, "--runs", str(runs), *elsewhere]
    found = command(capsys, "alexnet", "--runs", runs, "--precision", "fp32,fp16", "--batch", "4")
    assert found[3:9] == ["--mode", "2c", "--batch", "4", "--precision", "fp32"]


def test_the_cpu_of_a_board_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    board = replace(machine(), kind="jetson")
    for run_id, ceilings, cpus in (("run-1c", ONE_CORE, (0,)), ("run-2c", TWO_CORES, (0, 1))):
        trials = [*fma_trials(run_id, ceilings, cpus), *stream_trials(run_id, ceilings, cpus)]
        run = manifest(run_id, len(cpus), len(trials), on=board)
        write_run(runs / run_id, run, trials)
    assert command(capsys, "alexnet", "--runs", runs)[7:9] == ["--processor", "cpu"]


def test_after_one_mode_the_other_one_is_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    row = measurement("nets-1c", (0.06,) * 9, model="alexnet", model_hash="a" * 64)
    write_networks(runs, [row], 1)
    assert command(capsys, "alexnet", "--runs", runs)[2:5] == ["alexnet", "--mode", "2c"]


def test_a_program_is_run_again_by_its_own_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    row = program(
        "programs",
        (2.0, 2.01, 2.02),
        workload="my LLM",
        command=("python3", "decode.py", "--n", "3"),
        metric_pattern="tokens/s: ([0-9.]+)",
    )
    write_programs(runs, [row], 1)
    assert command(capsys, "my LLM", "--runs", runs) == [
        *("mansard", "measure", "--mode", "2c", "--runs", str(runs), "--name", "my LLM"),
        *("--metric", "tokens/s: ([0-9.]+)", "--", "python3", "decode.py", "--n", "3"),
    ]


LONG = "decode " * 20  # shown with the first 80 characters


@pytest.mark.parametrize(
    ("workload", "asked"), [("my LLM", "my LLM [prompt]"), (LONG, display_name(LONG))]
)
def test_a_window_and_a_long_name_are_measured_by_their_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workload: str, asked: str
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    prompt = NamedWindow(
        name="prompt", start_s=100.0, window_s=0.5, energy=None, unknown={"energy": "too short"}
    )
    row = program("programs", (2.0, 2.01, 2.02), workload=workload, windows=(prompt,))
    write_programs(runs, [row], 1)
    found = command(capsys, asked, "--runs", runs)
    assert found[6:] == ["--name", workload, "--", "./llm", "--prompt", "hello"]


def test_a_command_for_another_machine_is_told_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    (found,) = document(capsys, "recommend", "alexnet", "--runs", runs, *ASKED)["recommendations"]
    assert found["notes"][0].startswith("the command is for Example, not for this machine")


def test_runs_in_an_object_store_have_no_command_for_they_cannot_be_added_to(
    tmp_path: Path,
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    asked = PredictionRequest(runs=(str(runs),), networks=(NetworkRequest(name="alexnet"),))
    (found,) = recommend(asked, Wanted(minimise="latency"))
    assert found.measure_next is not None
    candidate, dataset = found.measure_next.candidate, open_runs([runs])
    assert find_measurement(candidate, dataset, machine(), asked) is not None
    elsewhere = dataclasses.replace(asked, runs=("s3://bucket/runs",))
    assert find_measurement(candidate, dataset, machine(), elsewhere) is None


def test_a_program_of_an_object_store_is_measured_again_into_the_default_folder() -> None:
    aside = SetAside(name="llm", newest=program("programs", (2.0,)), modes=("2c",))
    found = again_command(aside, "llm", ("s3://bucket/runs",), None)
    assert shlex.split(found) == [
        *("mansard", "measure", "--mode", "2c", "--name", "llm", "--again"),
        *("--", "./llm", "--prompt", "hello"),
    ]


def test_what_others_published_has_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(nano=nano(), modes=NANO_MODES)(tmp_path)
    monkeypatch.chdir(tmp_path)
    asked = ("llama", "--runs", "runs", "--mode", "modes.csv")
    (found,) = document(capsys, "recommend", *asked)["recommendations"]
    assert found["measure_next"]["command"] is None
    how = "measure its time and power in that mode and add a row to the imported table"
    assert found["measure_next"]["unknown"]["command"] == how
