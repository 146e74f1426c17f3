"""What the machine is, by a made-up NVML; and what others published, with its sources."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mansard.analytics.models.energy.fit import EnergyPoint, fit_energy
from tools.card_check.published import FIGURES, H200_COSTS, card_of, published_for
from tools.card_check.steps.facts import read_facts


class Nvml(ModuleType):
    """Answers some functions, refuses one, and has no others: none that sets anything."""

    NVML_ERROR_NOT_SUPPORTED = 3

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": None,
            "nvmlDeviceGetHandleByIndex": 0,
            "nvmlSystemGetDriverVersion": b"580.95.05",
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        }
        if name == "nvmlDeviceGetMigMode":
            return self._refuse
        if name not in answers:
            raise AttributeError(name)
        self.asked.append(name)
        return lambda *_: answers[name]

    def _refuse(self, *_: object) -> None:
        raise self.NVMLError("Not Supported")


def test_facts_are_what_answers_and_why_the_rest_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    facts = read_facts(None)
    assert facts["nvml"]["SystemGetDriverVersion"] == "580.95.05"
    assert facts["nvml"]["DeviceGetEnforcedPowerLimit"] == 700_000
    assert facts["nvml"]["DeviceGetMigMode"] == "NVMLError: Not Supported"
    assert facts["card"] is None  # CUDA answers nothing here
    assert "no GPU to measure" in facts["why"]
    assert nvml.asked
    assert not [name for name in nvml.asked if "Set" in name or "Reset" in name]


def test_a_card_in_software_has_facts_too() -> None:
    facts = read_facts("h100")
    assert facts["card"]["n_sms"] == 132
    assert "nvml" not in facts
    assert facts["libraries"]["msgspec"]


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA L4", None),
    ],
)
def test_cards_are_told_apart_by_their_names(name: str, card: str | None) -> None:
    assert card_of(name) == card


def test_figures_are_of_the_same_card_or_name_theirs() -> None:
    assert published_for("gemm fp32", "NVIDIA H100 80GB HBM3", 90) == "55.2 TFLOP/s (NeuSight)"
    assert published_for("gemm fp32", "NVIDIA H200", 90).startswith("H100: 55.2 TFLOP/s")
    assert published_for("gemm fp32", "NVIDIA A100", 80) == ""
    assert published_for("launch", "NVIDIA H200", 90) == ""


def test_every_figure_has_a_public_source() -> None:
    for one in FIGURES:
        assert one.source
        assert not one.source.startswith("/")


@pytest.mark.shared_data
def test_published_costs_are_the_models_of_the_published_table(shared_data: Path) -> None:
    path = shared_data / "gemm/te42kyfo+gpu-benches__h200_energy_roofline.csv"
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    points = [
        EnergyPoint(
            name=row["iters"],
            work_flop={"fp32": 1e9 * float(row["GFLOP_s"])},
            traffic_bytes={"memory": 1e9 * float(row["GB_s"])},
            window_s=1.0,
            energy_j=float(row["W"]),
        )
        for row in rows
    ]
    fit = fit_energy(points)
    assert fit.flop_j["fp32"].value == pytest.approx(H200_COSTS.flop_j, rel=0.005)
    assert fit.byte_j["memory"].value == pytest.approx(H200_COSTS.byte_j, rel=0.005)
    assert fit.constant_w.value == pytest.approx(H200_COSTS.constant_w, rel=0.005)
