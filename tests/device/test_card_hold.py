"""A graphics card within a hold: journalled first, put back by whoever comes next."""

from __future__ import annotations

from pathlib import Path

from tests.device.card_machine import DEFAULT, Card, needs_a_card

pytestmark = needs_a_card

PREPARE = """
import os
from pathlib import Path
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.restoring import restore
from mansard.device.holding.acting import planned_steps
root = Path({root!r})
(root / "var/lib").mkdir(parents=True, exist_ok=True)
modes = choose("power=250W,gpu=1410MHz;power=300W")
"""


def test_a_hold_sets_a_card_and_puts_it_back(tmp_path: Path) -> None:
    card = Card(tmp_path)
    card.put("650000 0 0")
    shown = card.run(
        PREPARE.format(root=str(tmp_path / "root"))
        + f"""
show([str(step) for step in planned_steps(root, modes[0])])
with hold_machine(root, settle_s=0) as hold:
    for mode in modes:
        show([hold.set(mode).power_limit_w, Path({str(tmp_path / "state")!r}).read_text().strip()])
"""
    )
    assert shown == [
        [
            "GPU 0 power limit 250 W (mode power250W_gpu1410MHz)",
            "GPU 0 GPU clock 1410 MHz (mode power250W_gpu1410MHz)",
            "GPU 0 memory clock unlocked (mode power250W_gpu1410MHz)",
        ],
        [250.0, "250000 1410 0"],
        [300.0, "300000 0 0"],
    ]
    assert card.settings == "650000 0 0"


def test_what_a_killed_sweep_left_is_put_back(tmp_path: Path) -> None:
    card = Card(tmp_path)
    prepare = PREPARE.format(root=str(tmp_path / "root"))
    # At each step of the second mode: the journal comes first, then three settings.
    for n_steps in (1, 2, 3, 4, 6, 8):
        card.run(
            f"""{prepare}
def kill(step, left=[{n_steps}]):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
if os.fork() == 0:
    with hold_machine(root, on_step=kill, settle_s=0) as hold:
        for mode in modes:
            hold.set(mode)
assert os.wait()[1] & 127 == 9
"""
        )
        # The journal twice, then three settings a mode: the fourth step is the GPU's clock.
        assert (card.settings != DEFAULT) == (n_steps > 3)
        card.run(prepare + "restore(root)")
        assert card.settings == DEFAULT, n_steps
    assert not (tmp_path / "root/var/lib/mansard/journal.json").exists()


DENIED = """
from mansard.core.errors import DeniedError
def hold(text):
    with hold_machine(root, settle_s=0) as held:
        held.set(choose(text)[0])
say(hold, "power=250W,gpu=1410MHz")
show(sorted(path.name for path in root.rglob("*.json")))
"""


def test_a_hold_that_is_denied_leaves_the_card_and_no_journal(tmp_path: Path) -> None:
    card = Card(tmp_path, "DENIED")
    (kind, line), journals = card.run(PREPARE.format(root=str(tmp_path / "root")) + DENIED)
    assert kind == "DeniedError"
    assert line.startswith("GPU 0: power limit 250 W is refused: Insufficient Permissions; run as")
    assert journals == []
    assert card.settings == DEFAULT


def test_a_card_that_takes_no_power_limit_leaves_no_journal(tmp_path: Path) -> None:
    # Its modes are written out: it names no limits to choose from.
    prepare = PREPARE.format(root=str(tmp_path / "root")).partition("modes =")[0]
    (kind, line), journals = Card(tmp_path, "LIMITED").run(
        prepare
        + """
import msgspec
(present,) = choose("")
mode = msgspec.structs.replace(present, name="power250W", kind="card", power_limit_w=250.0)
def hold():
    with hold_machine(root, settle_s=0) as held:
        held.set(mode)
say(hold)
show(sorted(path.name for path in root.rglob("*.json")))
"""
    )
    assert kind == "DeviceError"
    assert "power limit 250 W is refused: Not Supported" in line
    assert journals == []
