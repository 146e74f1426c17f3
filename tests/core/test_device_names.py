"""One way to name a device: the same names find measured devices, limits and modules."""

from __future__ import annotations

import pytest

from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.models.roofs.published_rooflines import find_module
from mansard.core.errors import UsageError
from mansard.core.hardware import devices_called, near_hint
from mansard.core.hardware.memory import MODULE_MEMORY, module_memory

NANO, KIT = "Jetson Orin Nano 8GB (published)", "NVIDIA Jetson Orin Nano Developer Kit GPU"
AGX, SMALL = "Jetson AGX Orin 64GB (published)", "Jetson Orin Nano 4GB"


@pytest.mark.parametrize(
    ("wanted", "devices"),
    [
        ("orin-nano", [NANO, KIT, SMALL]),
        ("Orin Nano", [NANO, KIT, SMALL]),
        ("orin-nano-8gb", [NANO]),
        ("AGX_ORIN", [AGX]),
        (SMALL, [SMALL]),
        ("orin", [NANO, KIT, AGX, SMALL]),
        ("thor", []),
        ("<script>", []),
        ("n" * 500, []),
    ],
)
def test_spelling_does_not_count(wanted: str, devices: list[str]) -> None:
    assert list(devices_called(wanted, [NANO, KIT, AGX, SMALL])) == devices


def test_a_developer_kit_is_its_board_where_no_name_has_the_words() -> None:
    # Only the module of 8 GB has a developer kit; of AGX Orin there are kits of 32 and of 64 GB.
    assert devices_called("orin-nano-8gb", [KIT]) == (KIT,)
    assert devices_called("orin-nano-4gb", [KIT]) == ()
    assert devices_called("xavier-nx-16gb", ["NVIDIA Jetson Xavier NX 8GB"]) == ()  # one board's
    assert devices_called("agx-orin-32gb", ["NVIDIA Jetson AGX Orin Developer Kit"]) == ()
    assert devices_called("Größe", ["Größe 2"]) == ("Größe 2",)


def test_a_near_miss_lists_what_is_near() -> None:
    assert near_hint("agx-onin", [NANO, AGX]) == f"did you mean {AGX}? "
    assert near_hint("orin nanp", [NANO, AGX]) == f"did you mean {NANO}? "
    assert near_hint("rtx 4090", [NANO, AGX]) == near_hint("", [NANO]) == ""


@pytest.mark.parametrize("name", MODULE_MEMORY)
def test_each_name_of_a_module_is_one_everywhere(name: str) -> None:
    assert module_memory(name).name in MODULE_MEMORY[name].name
    assert find_module(name).name.split(" ")[1] in MODULE_MEMORY[name].name
    assert hardware_rates(name).rates[0].device.split(" ")[1] in MODULE_MEMORY[name].name


def test_limits_of_a_near_miss_name_the_boards() -> None:
    with pytest.raises(UsageError, match=r"'orin-nano' may be several boards; use one of .*4GB Su"):
        hardware_rates("orin-nano")
    with pytest.raises(UsageError, match="is not a known board; did you mean Jetson AGX Orin 64GB"):
        hardware_rates("agx onin")
