"""A machine with a card that cannot be measured: its CPU is measured where that is meant."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.device.card_machine import Card, WatchedCard, needs_a_card

pytestmark = needs_a_card

BRIEF = ("--local", "--profile", "brief", "--no-networks", "--runs", "runs")
COMMANDS = [
    (("bench", *BRIEF), "measure the CPU with --processor cpu"),
    (("bench", "--dry-run", *BRIEF), "measure the CPU with --processor cpu"),
    (("contention", "--local"), "measure the CPU with --processor cpu"),
    (("measure", "lenet", "--local"), "measure the CPU with --processor cpu"),
    (("multi", "run", "lenet", "lenet", "--local"), "run all of it on the CPU with --devices cpu"),
]


@pytest.mark.parametrize(("words", "way_out"), COMMANDS, ids=lambda each: " ".join(each)[:30])
def test_a_card_that_answers_is_not_replaced_by_the_cpu(
    words: tuple[str, ...], way_out: str, tmp_path: Path
) -> None:
    card = Card(tmp_path)
    card.give_cuda()
    done = card.command(*words, **card.take_cupy())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "mansard: this machine has Stand-in card, which cannot be measured: no CuPy: it is not "
        f"installed in this Python; install 'mansard[cuda13]', or {way_out}\n"
    )
    assert not (tmp_path / "runs").exists()


def test_the_cpu_beside_a_card_that_answers_is_measured_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    card = Card(tmp_path)
    card.give_cuda()
    done = card.command("bench", "--processor", "cpu", "--dry-run", *BRIEF, **card.take_cupy())
    assert done.returncode == 0, done.stderr
    assert "Stand-in card" not in done.stderr


@pytest.mark.parametrize("has_library", [False, True], ids=["no libcuda", "no device"])
def test_where_the_driver_does_not_answer_the_first_line_says_so(
    has_library: bool, tmp_path: Path
) -> None:
    card = Card(tmp_path)
    if has_library:
        card.give_cuda(is_absent=True)
    done = card.command("bench", "--dry-run", *BRIEF, **card.take_cupy())
    assert done.returncode == 0, done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith(
        "note: this machine has Stand-in card, which cannot be measured: CUDA's driver gives this "
        "process no access"
    )
    assert "; the CPU, " in first


def test_a_bench_of_the_cpu_beside_a_card_says_so_and_sets_nothing(tmp_path: Path) -> None:
    card = WatchedCard(tmp_path)
    done = card.command("bench", "squeezenet1_1", *BRIEF, **card.take_cupy(), COLUMNS="200")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("note: this machine has Stand-in card, which cannot be measured")
    (page,) = (tmp_path / "runs").glob("*.html")
    title = re.search("<title>(.*?)</title>", page.read_text())
    assert title is not None
    assert title[1].endswith(" (CPU)")
    assert " (CPU)" in done.stdout
    assert card.calls == []


def doctor(card: Card, **variables: str) -> dict[str, dict[str, str]]:
    done = card.command("doctor", "--json", **variables)
    assert done.returncode == 0, done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


def test_doctor_tells_the_card_and_what_measuring_and_metering_it_lack(tmp_path: Path) -> None:
    card = Card(tmp_path)
    card.give_cuda()
    hidden = card.take_cupy()
    checks = doctor(card, **hidden)
    found = checks["NVIDIA GPU"]
    assert found["status"] == "missing"
    assert found["detail"].startswith("Stand-in card, driver 580.65.06")
    assert found["detail"].endswith(
        "kernels cannot run on it from here: no CuPy: it is not installed in this Python"
    )
    assert found["fix"] == "install 'mansard[cuda13]', or measure in a container"
    assert checks["NVML"]["status"] == "ok"
    assert checks["ort"]["status"] == "missing"
    assert "install onnxruntime-gpu" in checks["ort"]["fix"]
    (tmp_path / "without-cupy/pynvml.py").write_text("raise ModuleNotFoundError('none')\n")
    meter = doctor(card, **hidden)["NVML"]
    assert meter["detail"] == "nvidia-ml-py is not installed"
    assert meter["fix"].startswith("install it with 'pip install nvidia-ml-py'")


def test_doctor_tells_a_driver_that_does_not_answer_from_a_missing_library(tmp_path: Path) -> None:
    card = Card(tmp_path)
    found = doctor(card, **card.take_cupy())["NVIDIA GPU"]
    assert "CUDA's driver gives this process no access; no CuPy" in found["detail"]
    assert found["fix"].startswith("start the container with access to the GPU")
