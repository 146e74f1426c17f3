"""Nsight Compute as a program: where it is found, what it lists, its command line, its errors.

The real one is used where it is: MANSARD_NCU, on PATH, or fetched by ``make ncu``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.core.errors import InputError, MeasurementError, UsageError
from mansard.core.formats.ncu import (
    base_name,
    capability_of,
    choose_metrics,
    counting_command,
    usual_metrics,
)
from mansard.inference.counters.ncu import (
    Ncu,
    command_line,
    find_ncu,
    is_without_kernels,
    listed_metrics,
    raw_page,
    refusal_of,
)
from mansard.inference.plan import CounterTrial
from tests.inference.ncu_stand_in import NAMES, VERSION, write_ncu, write_report

ROOT = Path(__file__).parents[2]


def counter_trial(*metrics: str) -> CounterTrial:
    return CounterTrial(
        model="small",
        model_hash="0" * 16,
        file="small.onnx",
        file_hash="0" * 16,
        inputs_file="",
        inputs_hash="",
        input_specs=(),
        inputs="uniform random numbers",
        engine="ort",
        provider="cuda",
        precision="fp32",
        batch=1,
        dimensions={},
        n_threads=1,
        chip="ga10b",
        metrics=metrics,
        lacking=(),
        n_calls=1,
    )


def test_it_is_found_where_nvidia_installs_it_the_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for place in (
        "opt/nvidia/nsight-compute/2022.3.0",
        "opt/nvidia/nsight-compute/2024.10.1",
        "opt/nvidia/nsight-compute/2024.3.1",
        "usr/local/cuda-12.6/bin",
    ):
        (tmp_path / place).mkdir(parents=True)
        write_ncu(tmp_path / place)
    found = find_ncu(root=tmp_path)
    assert found.path == tmp_path / "opt/nvidia/nsight-compute/2024.10.1/ncu"
    assert found.version == VERSION


def test_that_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usr/local/cuda/bin").mkdir(parents=True)
    write_ncu(tmp_path / "usr/local/cuda/bin")
    (tmp_path / "bin").mkdir()
    own = write_ncu(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{own.parent}:/usr/bin:/bin")
    assert find_ncu(root=tmp_path).path == own


def test_one_in_the_present_folder_is_not_looked_up_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write_ncu(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert find_ncu(Path("ncu")) == Ncu(own, VERSION)


def test_without_one_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UsageError, match="--ncu"):
        find_ncu(root=tmp_path)


def test_another_program_of_that_name_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "ncu"
    other.write_text("#!/bin/sh\necho curses\n")
    other.chmod(0o755)
    with pytest.raises(MeasurementError, match="does not say its version"):
        find_ncu(other)


def test_names_of_metrics_are_read_from_its_list(tmp_path: Path) -> None:
    found = find_ncu(write_ncu(tmp_path))
    assert listed_metrics(found, "ga10b") == frozenset(NAMES)


def test_a_warning_is_no_refusal() -> None:
    assert refusal_of(["==WARNING== No section files found in search paths."]) is None
    assert refusal_of(["==ERROR== The application returned an error code (1)."]) is None
    assert is_without_kernels(["==WARNING== No kernels were profiled."])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "==ERROR== An error was reported by the driver:\n"
            "==ERROR== Cuda driver is not compatible with Nsight Compute.",
            "are incompatible",
        ),
        (
            "==ERROR== An error was reported by the counter measurement library:\n"
            "==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check that a "
            "compatible driver library is loaded.\n==PROF== Trying to shutdown target application",
            "not in a sandbox, or name a newer one",
        ),
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
            "Performance Counters on the target device 0.",
            'sudo -E "$(which mansard)"',
        ),
        ("==ERROR== Failed to find metric regex:^foo__bar...", "does not know a metric"),
        ("==ERROR== A header:\n==ERROR== and what it is.", "A header: and what it is."),
        ("==ERROR== Something else.\n==ERROR== And more.", "ncu: Something else.; "),
    ],
)
def test_messages_that_others_have_seen_are_one_line(said: str, words: str) -> None:
    refused = refusal_of(said.splitlines())
    assert words in str(refused)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Ncu:
    """The real program; its settings go into a home folder of the test's own."""
    fetched = list(ROOT.glob(".venv/ncu/usr/lib/*/nsight-compute/target/*/ncu"))
    named = os.environ.get("MANSARD_NCU") or shutil.which("ncu")
    path = Path(named) if named else next(iter(fetched), None)
    if path is None:
        pytest.skip("no Nsight Compute is here: 'make ncu' fetches it")
    return find_ncu(path)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nsight Compute writes into the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("chip", ["gv11b", "ga10b", "ga102", "gh100"])
def test_the_real_one_lists_all_that_is_asked_for(real: Ncu, chip: str) -> None:
    listed = listed_metrics(real, chip)
    choice = choose_metrics(chip, listed)
    assert choice.lacking == ()
    assert {base_name(name) for name in choice.metrics} <= listed
    assert {base_name(name) for name in usual_metrics(capability_of(chip))} <= listed


def test_the_real_one_does_not_know_a_chip_of_no_name(real: Ncu) -> None:
    with pytest.raises(UsageError, match="ga10b"):
        listed_metrics(real, "zz1")


def test_the_real_one_takes_our_options_and_refuses_others(real: Ncu) -> None:
    choice = choose_metrics("ga102", listed_metrics(real, "ga102"))
    program = [sys.executable, "-c", ""]
    command = command_line(real, program, metrics=choice.metrics, cache_control="all")
    taken = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [*taken.stdout.splitlines(), *taken.stderr.splitlines()]
    assert not [line for line in said if "option" in line.lower()], said
    # On a machine without a card this is the driver; with one, that nothing ran on it.
    refused = refusal_of(said)
    assert is_without_kernels(said)
    if refused is not None:
        assert "finds no CUDA driver" in str(refused)
    command.insert(1, "--no-such-option")
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "unrecognised option" in other.stdout + other.stderr


@pytest.mark.parametrize("data", [b"", b"NVR\0cut", b"garbage"])
def test_a_report_that_the_real_one_cannot_read_is_a_line(
    real: Ncu, tmp_path: Path, data: bytes
) -> None:
    report = tmp_path / "cut.ncu-rep"
    report.write_bytes(data)
    with pytest.raises(InputError, match="cannot read it: Failed to load report file"):
        raw_page(real, report)


def test_the_real_one_takes_the_command_that_is_advised(real: Ncu, tmp_path: Path) -> None:
    words = shlex.split(counting_command(87).replace("PROGRAM", "/bin/true"))
    words[0] = str(real.path)
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    log = tmp_path / "counters.csv"
    said = ran.stdout + ran.stderr + (log.read_text() if log.exists() else "")
    assert "option" not in said.lower()
    assert is_without_kernels(said.splitlines())


def test_a_page_is_that_of_the_report(tmp_path: Path) -> None:
    program = find_ncu(write_ncu(tmp_path))
    assert raw_page(program, write_report(tmp_path / "r.ncu-rep", "a page\n")) == b"a page\n"
    with pytest.raises(InputError, match=re.escape(VERSION)):
        raw_page(program, write_report(tmp_path / "r.ncu-rep", ""))
