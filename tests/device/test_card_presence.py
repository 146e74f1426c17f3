"""Cards on the PCI bus, told by ids alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.cards import SeenCards, cuda_extra, pci_cards, see_cards
from tests.device.identity_boards import write

BUS = "sys/bus/pci/devices"


def put(root: Path, place: str, vendor: str, kind: str, device: str | None) -> None:
    write(root, f"{BUS}/{place}/vendor", f"{vendor}\n")
    write(root, f"{BUS}/{place}/class", f"{kind}\n")
    if device is not None:
        write(root, f"{BUS}/{place}/device", f"{device}\n")


def test_cards_are_nvidias_display_controllers(tmp_path: Path) -> None:
    put(tmp_path, "0000:01:00.0", "0x10de", "0x030200", "0x2330")  # 3D controller: H100 SXM
    put(tmp_path, "0000:01:00.1", "0x10de", "0x040300", "0x22bd")  # its audio
    put(tmp_path, "0000:02:00.0", "0x8086", "0x030000", "0x4680")  # of another maker
    put(tmp_path, "0000:03:00.0", "0x10de", "0x030000", None)
    put(tmp_path, "0000:04:00.0", "0x10de", "0x068000", "0x22a3")  # NVSwitch
    cards = ("NVIDIA card (PCI 10de:2330)", "NVIDIA card (PCI 10de:unknown)")
    assert pci_cards(tmp_path) == cards
    assert see_cards(tmp_path) == SeenCards(of_cuda=(), on_bus=cards)


def test_a_machine_without_a_bus_has_none(tmp_path: Path) -> None:
    assert pci_cards(tmp_path) == ()


@pytest.mark.parametrize(
    ("driver", "extra"),
    [("580.65.06", "cuda13"), ("590.1", "cuda13"), ("575.57.08", "cuda12"), (None, "cuda12")],
)
def test_the_extra_goes_by_the_driver(driver: str | None, extra: str) -> None:
    assert cuda_extra(driver) == extra
