"""Power limits and locked clocks of a graphics card, over a stand-in for NVML."""

from __future__ import annotations

from pathlib import Path

from tests.device.card_machine import DEFAULT, Card, needs_a_card

pytestmark = needs_a_card


def test_a_card_is_set_read_back_and_put_back(tmp_path: Path) -> None:
    card = Card(tmp_path)
    card.put("650000 0 0")
    shown = card.run(
        f"""
found = read_card()
(mode,) = choose("power=250W,gpu=1410MHz,memory=1593MHz")
for write in card_writes(mode, found):
    show(str(write))
back = set_card(actor, mode, found)
show([mode.name, mode.kind, mode.power_limit_w, mode.gpu_hz, mode.memory_hz])
show([back.power_limit_w, back.gpu_hz, open({str(tmp_path / "state")!r}).read().strip()])
show(restore_card(actor, found)[1])
"""
    )
    assert shown == [
        "power limit 250 W",
        "GPU clock 1410 MHz",
        "memory clock 1593 MHz",
        ["power250W_gpu1410MHz_emc1593MHz", "card", 250.0, 1410e6, 1593e6],
        [250.0, None, "250000 1410 1593"],  # NVML cannot read a lock back
        [],
    ]
    assert card.settings == "650000 0 0"


def test_what_a_mode_leaves_open_is_as_it_was_found(tmp_path: Path) -> None:
    card = Card(tmp_path)
    card.put("650000 0 0")
    card.run(
        """
found = read_card()
for mode in choose("power=250W,gpu=1410MHz;gpu=1980MHz;memory=3201MHz"):
    set_card(actor, mode, found)
"""
    )
    assert card.settings == "650000 0 3201"


def test_a_journal_brings_the_card_back_in_another_process(tmp_path: Path) -> None:
    card = Card(tmp_path)
    (kept,) = card.run(
        """
import msgspec
found = read_card()
set_card(actor, choose("power=300W,gpu=345MHz")[0], found)
show(msgspec.json.encode(found).decode())
"""
    )
    assert card.settings == "300000 345 0"
    card.run(
        f"""
import msgspec
from mansard.device.cards import CardState
found = msgspec.json.decode({kept!r}, type=CardState)
assert restore_card(actor, found)[1] == []
"""
    )
    assert card.settings == DEFAULT


def test_all_are_limits_from_the_least_to_the_most(tmp_path: Path) -> None:
    card = Card(tmp_path)
    # 200 W to 700 W in four steps of 125 W; the default is the highest.
    assert card.run('show([mode.name for mode in choose("all")])') == [
        ["power200W", "power325W", "power450W", "power575W", "power700W"]
    ]
    assert card.settings == DEFAULT


def test_nothing_is_the_card_as_it_is(tmp_path: Path) -> None:
    card = Card(tmp_path)
    card.put("650000 0 0")
    code = 'show([[mode.name, mode.kind, mode.power_limit_w] for mode in choose("")])'
    assert card.run(code) == [[["present", "present", 650.0]]]


def test_a_slip_says_what_the_card_takes(tmp_path: Path) -> None:
    card = Card(tmp_path)
    texts = (
        "power=900W",
        "power=250",
        "gpu=1400MHz",
        "power250W_gpu9MHz",
        "fast",
        "sms=4",
    )
    shown = card.run("".join(f"say(choose, {text!r})\n" for text in texts))
    assert [error for error, _ in shown] == ["UsageError"] * len(texts)
    expected = (
        "power has no 900W; any from 200W to 700W is available",
        "'250' is not a power",
        "gpu has no 1400MHz; available, nearest first: 1410MHz, 1710MHz",
        "gpu has no 9MHz",
        "unknown power mode 'fast'",
        "sms cannot be set",
    )
    for (_, message), start in zip(shown, expected, strict=True):
        assert message.startswith(start)


def test_without_permission_the_modes_are_listed_and_the_first_setting_is_denied(
    tmp_path: Path,
) -> None:
    card = Card(tmp_path, "DENIED")
    shown = card.run(
        """
show([mode.name for mode in choose("all")])
found = read_card()
say(set_card, actor, choose("power=250W")[0], found)
show(restore_card(actor, found)[1])
"""
    )
    assert shown[0] == ["power200W", "power325W", "power450W", "power575W", "power700W"]
    assert shown[1] == [
        "DeniedError",
        "GPU 0: power limit 250 W is refused: Insufficient Permissions; run as root (sudo); in a "
        "container, with CAP_SYS_ADMIN as well",
    ]
    assert card.settings == DEFAULT


def test_a_card_that_can_only_be_read_says_so(tmp_path: Path) -> None:
    shown = Card(tmp_path, "LIMITED").run(
        """
show([mode.name for mode in choose("all")])
say(choose, "gpu=1410MHz")
limits = read_card_limits()
show([limits.least_mw, limits.gpu_mhz, sorted(limits.unknown)])
"""
    )
    assert shown[0] == ["present"]
    assert "Not Supported" in shown[1][1]
    assert shown[2] == [None, [], ["gpu", "memory", "power"]]


def test_a_card_that_cannot_lock_memory_is_put_back_all_the_same(tmp_path: Path) -> None:
    card = Card(tmp_path, "OLD")
    shown = card.run(
        """
found = read_card()
set_card(actor, choose("power=250W")[0], found)
say(set_card, actor, choose("memory=1593MHz")[0], found)
show(restore_card(actor, found)[1])
"""
    )
    assert shown[0][0] == "DeviceError"
    assert "memory clock 1593 MHz is refused" in shown[0][1]
    assert shown[1] == []
    assert card.settings == DEFAULT


def test_a_limit_that_does_not_stick_is_noticed(tmp_path: Path) -> None:
    shown = Card(tmp_path, "STUBBORN").run(
        'found = read_card()\nsay(set_card, actor, choose("power=250W")[0], found)'
    )
    assert shown == [
        [
            "DeviceError",
            "GPU 0: its power limit is 700 W, not 250 W; choose this limit, or look for what "
            "sets it (nvidia-smi -q -d POWER)",
        ]
    ]


def test_a_limit_that_cannot_be_put_back_is_told(tmp_path: Path) -> None:
    card = Card(tmp_path, "STUBBORN")
    card.put("250000 0 0")
    shown = card.run(
        """
found = read_card()
set_card(actor, choose("power=300W")[0], found)
show(restore_card(actor, found)[1])
"""
    )
    assert shown == [["GPU 0: its power limit is 300000 mW"]]


def test_without_the_library_there_is_no_card(tmp_path: Path) -> None:
    card = Card(tmp_path)
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library")
    ((kind, message),) = card.run("say(read_card)")
    assert kind == "DeviceError"
    assert "no card of NVIDIA can be asked" in message
    assert "install NVIDIA's driver" in message


def test_a_grid_of_limits_and_clocks(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(
        """
        power = { from = "200W", to = "700W", points = 4 }
        gpu = ["1410MHz", "1980MHz"]
        [[exclude]]
        power = { to = "200W" }
        gpu = "1980MHz"
        """
    )
    bad = tmp_path / "bad.toml"
    bad.write_text('power = "all"\n')
    worse = tmp_path / "worse.toml"
    worse.write_text('gpu = "all"\ncores = 2\n')
    shown = Card(tmp_path).run(
        f"""
show(sorted(mode.name for mode in choose({str(path)!r})))
show(len(choose_modes({str(path)!r}, SYSTEM_ROOT, machine(4, "gpu"), pick=3)))
say(choose, {str(bad)!r})
say(choose, {str(worse)!r})
"""
    )
    # 200, 366.7, 533.3 and 700 W in whole watts, twice, but for the one that is excluded.
    assert shown[0] == [
        "power200W_gpu1410MHz",
        "power367W_gpu1410MHz",
        "power367W_gpu1980MHz",
        "power533W_gpu1410MHz",
        "power533W_gpu1980MHz",
        "power700W_gpu1410MHz",
        "power700W_gpu1980MHz",
    ]
    assert shown[1] == 3
    assert "bad.toml:1: power takes any value here" in shown[2][1]
    assert "worse.toml:2: 'cores' is not a setting; use power, gpu, emc" in shown[3][1]


def test_a_machine_with_a_card_takes_its_settings_and_core_counts(tmp_path: Path) -> None:
    shown = Card(tmp_path).run(
        """
import msgspec
beside = msgspec.structs.replace(machine(4), kind="gpu", accelerators=("Stand-in card",))
for text in ("", "2c", "power=250W", "gpu=1410MHz", "power300W"):
    show([mode.name for mode in choose_modes(text, SYSTEM_ROOT, beside)])
"""
    )
    # Without its own limit a mode keeps the card's, which is part of its name.
    assert shown == [["present"], ["2c"], ["power250W"], ["power700W_gpu1410MHz"], ["power300W"]]


def test_the_right_to_set_a_card_is_told_by_the_kernel_and_not_tried(tmp_path: Path) -> None:
    card = Card(tmp_path)
    right, notes = card.run(
        """
import os
from mansard.device.cards import setting_right
from mansard.device.power_modes.selection import mode_notes
mode_notes(SYSTEM_ROOT, machine(4, "gpu"))  # imports what nobody may not read
if os.geteuid() == 0:
    os.setuid(65534)
show(setting_right())
show(mode_notes(SYSTEM_ROOT, machine(4, "gpu")))
"""
    )
    assert right == "run as root (sudo); in a container, with CAP_SYS_ADMIN as well"
    assert notes[-1] == f"setting it needs root: {right}; looking and measuring it as it is do not"
    assert card.settings == DEFAULT
