"""Looking at a graphics card never changes it: no function of NVML that sets is called."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.device.card_machine import WatchedCard, changing_functions, needs_a_card

pytestmark = needs_a_card

GRID = 'power = ["250W", "300W"]\ngpu = ["1410MHz"]\n'
# Commands that name no mode, or that only say what they would do.
LOOKS = [
    ("modes",),
    ("modes", "--json"),
    ("doctor",),
    ("doctor", "--json"),
    ("watch", "--once"),
    ("watch", "--duration", "300ms", "--interval", "100ms"),
    ("restore",),
    ("bench", "--dry-run", "--processor", "cpu", "--profile", "brief", "--no-networks"),
    ("bench", "--dry-run", "--processor", "cpu", "--mode", "all", "--no-networks"),
    ("bench", "--dry-run", "--processor", "cpu", "--mode", "grid.toml", "--no-networks"),
    ("bench", "--dry-run", "--processor", "cpu", "--mode", "power=250W,gpu=1410MHz"),
    ("contention", "--dry-run", "--processor", "cpu"),
    pytest.param(("measure", "--repeat", "1", "--", "true"), id="measure -- true"),
]


@pytest.fixture
def card(tmp_path: Path) -> WatchedCard:
    (tmp_path / "grid.toml").write_text(GRID)
    return WatchedCard(tmp_path)


def test_the_stand_in_notes_every_function_that_sets(card: WatchedCard) -> None:
    names = changing_functions()
    assert {"nvmlDeviceSetPowerManagementLimit", "nvmlDeviceResetGpuLockedClocks"} <= {*names}
    assert len(names) > 50  # not the five that Mansard knows
    card.run(
        f"""
import pynvml
pynvml.nvmlInit()
for name in {names}:
    pynvml._nvmlGetFunctionPointer(name)()
"""
    )
    assert card.calls == names


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_look_sets_nothing(words: tuple[str, ...], card: WatchedCard) -> None:
    done = card.command(*words)
    assert done.returncode == 0, done.stderr
    assert card.calls == []


def test_a_mode_that_is_named_is_set_by_the_run_alone(card: WatchedCard) -> None:
    words = ("squeezenet1_1", "--mode", "power=250W", "--processor", "cpu", "--no-networks")
    done = card.command("bench", "-q", *words)
    while "in use by another sweep" in done.stderr:  # the machine is the tests' own
        time.sleep(1)
        done = card.command("bench", "-q", *words)
    assert done.returncode == 1
    assert done.stderr == (
        "mansard: GPU 0: power limit 250 W is refused: Insufficient Permissions; run as root "
        "(sudo); in a container, with CAP_SYS_ADMIN as well\n"
    )
    assert card.calls[0] == "nvmlDeviceSetPowerManagementLimit"
    assert not list(card.folder.rglob("journal.json"))


def test_modes_lists_the_limits_and_the_right_that_setting_needs(card: WatchedCard) -> None:
    listing = json.loads(card.command("modes", "--json").stdout)
    assert listing["machine"] == "Stand-in card"
    assert [one["mode"]["name"] for one in listing["modes"]] == [
        *("power200W", "power325W", "power450W", "power575W", "power700W")
    ]
    assert listing["notes"][1:3] == [
        "its power limit is 700 W now",
        "it takes power from 200W to 700W, gpu from 345MHz to 1980MHz, emc from 1593MHz to 3201MHz",
    ]
