"""Which processor is measured, where a machine has a card and a library or a driver is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mansard.core.errors import UsageError
from mansard.core.records import Gpu, MachineIdentity, Processor
from mansard.device.cards import SeenCards, see_cards
from mansard.inference.engines.engine import EngineProbe
from mansard.microbench.plan import Probe, probe
from mansard.sweeps.networks import choose_provider, plan_networks
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT
from mansard.sweeps.sweep import SweepRequest
from mansard.sweeps.targets import find_processor
from tests.device.grid_machines import machine
from tests.device.identity_boards import write

GPU = Gpu(
    name="Stand-in card",
    sm=90,
    n_sms=132,
    is_integrated=False,
    l1_bytes=1,
    l2_bytes=1,
    memory_bytes=1,
    memory_bus_bits=1,
    memory_hz=1.0,
    gpu_hz=1.0,
    ecc=True,
    mig=None,
    driver_cuda="13.0",
    runtime_cuda="13.0",
    unknown={"mig": "not sliced"},
)


class Notes:
    """A reporter that keeps the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)

    def progress(self, title: str) -> Any:
        return SILENT.progress(title)


class Target:
    """A plain machine, and its controller, with the cards of a folder and ORT for the CPU."""

    def __init__(self, root: Path) -> None:
        self.controller, self._root = self, root

    def identify(self) -> MachineIdentity:
        return replace(machine(4), is_simulated=False)

    def probe(self, processor: Processor) -> Probe:
        assert processor == "cpu"
        return probe(processor)

    def seen_cards(self) -> SeenCards:
        return see_cards(self._root)

    def engine_probe(self, engine: str) -> EngineProbe:
        absent = {"cuda": "it has no CUDA"}
        return EngineProbe(
            engine=engine, version="1.30", versions={}, providers=("cpu",), absent=absent
        )


def notes_of(root: Path, wanted: Processor | None) -> list[str]:
    target: Any = Target(root)
    notes: Any = Notes()
    assert find_processor(target, target.identify(), wanted, notes).gpu is None
    lines: list[str] = notes.lines
    return lines


def test_a_card_on_the_bus_without_a_driver_is_said_before_the_cpu(tmp_path: Path) -> None:
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")):
        write(tmp_path, f"sys/bus/pci/devices/0000:01:00.0/{name}", f"{text}\n")
    assert notes_of(tmp_path, None) == [
        "note: this machine has NVIDIA card (PCI 10de:2330), which cannot be measured: no driver "
        "of NVIDIA answers here; the CPU, made up, is measured"
    ]
    assert notes_of(tmp_path, "cpu") == []


def test_a_machine_without_a_card_has_no_note(tmp_path: Path) -> None:
    assert notes_of(tmp_path, None) == []


def test_networks_do_not_run_on_the_cpu_in_place_of_the_card(tmp_path: Path) -> None:
    target: Any = Target(tmp_path)
    notes: Any = Notes()
    assert choose_provider(target.engine_probe("ort"), None, has_gpu=True) == "cpu"
    request = SweepRequest(runs=tmp_path / "runs")
    with Preparation(NetworkSettings(engine="ort")) as preparation:
        with pytest.raises(UsageError) as caught:
            plan_networks(preparation, ("lenet",), target, (), request, notes, gpu=GPU)
        assert str(caught.value) == (
            "ort cannot run networks on Stand-in card (cuda: it has no CUDA); install an engine "
            "for the GPU (onnxruntime-gpu, or TensorRT and --engine tensorrt), or measure the CPU "
            "with --processor cpu"
        )
        beside: Any = {"gpu": GPU, "is_lenient": True}  # a bench, which has measured its kernels
        plan_networks(preparation, (), target, (), request, notes, **beside)
    assert notes.lines[0].startswith("note: ort cannot run networks on Stand-in card")
    assert notes.lines[0].endswith("; the networks run on the CPU, made up")
