"""An nvpmodel that stops half-way: the board is in no mode, and what is not put back is said."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.restoring import restore
from mansard.device.identity import identify
from mansard.device.nvpmodel.tool import query, set_mode
from mansard.device.power_modes.selection import choose_modes
from mansard.simulator import create_board, running, set_fault
from mansard.simulator.create import snapshot
from tests.device.nvpmodel_files import CONFIG, write, write_tool
from tests.simulator.simulator_bench import has_caught_up
from tests.waiting import awaited

# So that the simulated kernel, a process, answers a write before what it left is read back.
pytestmark = pytest.mark.usefixtures("before_others")

SETTLE_S = 0.02
MASK = "sys/devices/platform/gpu.0/tpc_pg_mask"

# What boards printed (OE4T/meta-tegra issues 1864 and 1268), after a mode was half set.
WORDS = """NVPM ERROR: Error writing 128 to /sys/devices/platform/gpu.0/tpc_pg_mask: 16
NVPM ERROR: failed to write PARAM TPC_POWER_GATING: ARG TPC_PG_MASK: PATH: /x VAL: 128
NVPM ERROR: failed to set power mode!
NVPM ERROR: optMask is 2, no request for power mode
"""
TOOL = """
import pathlib, sys
status = pathlib.Path(__file__).parents[2] / "status"
if sys.argv[1] == "-q":
    print("NV Power Mode:", {{"0": "MAXN", "7": "MODE_15W"}}[status.read_text()])
    print(status.read_text())
else:
    if {notes}:
        status.write_text(sys.argv[2])
    sys.stderr.write({words!r})
    sys.exit({code})
"""


def board_that(tmp_path: Path, words: str, code: int, *, notes: bool) -> Path:
    """A board in MAXN whose tool says ``words`` when it sets a mode, which it ``notes`` or not."""
    write(tmp_path, "etc/nvpmodel.conf", CONFIG)
    write(tmp_path, "status", "0")
    write_tool(tmp_path, TOOL.format(words=words, code=code, notes=notes))
    return tmp_path


@pytest.mark.parametrize("notes", [False, True])
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (WORDS, 255),
        (WORDS.replace(": 16", ": 19").replace("TPC", "FBP").replace("tpc", "fbp"), 255),
        (WORDS, 0),  # its exit code is not to be trusted
        ("NVPM ERROR: Error writing 1 to /sys/x: 5\n", 1),  # the power went, or a signal came
    ],
)
def test_a_mode_that_was_set_half_way_is_no_mode(
    tmp_path: Path, words: str, code: int, notes: bool
) -> None:
    outcome = set_mode(board_that(tmp_path, words, code, notes=notes), 7)
    assert outcome.kind == "partial"
    assert "Error writing" in outcome.text


def test_complaints_beside_a_mode_that_was_set_are_not_half_way(tmp_path: Path) -> None:
    # A file may name clocks that this kernel does not have: the tool goes on, and ends with 0.
    words = "NVPM ERROR: Error opening /sys/x: 2\nNVPM ERROR: failed to write PARAM X: ARG Y\n"
    assert set_mode(board_that(tmp_path, words, 0, notes=True), 7).kind == "set"
    words = "NVPM ERROR: failed to set power mode!\n"
    assert set_mode(board_that(tmp_path / "b", words, 255, notes=False), 7).kind == "refused"


def modes_of(root: Path) -> dict[str, PowerMode]:
    return {mode.name: mode for mode in choose_modes("all", root, identify(root))}


def test_the_simulated_tool_stops_as_boards_do(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    set_fault(root, "gating_busy", 16)
    # 30W gates 4 of 8 TPCs (mask 240), 15W gates 5 (248); MAXN and 50W none.
    outcome = set_mode(root, 1)
    assert outcome.kind == "partial"
    assert f"Error writing 248 to /{MASK}: 16" in outcome.text
    assert query(root).name == "30W"
    assert (root / MASK).read_text().strip() == "240"
    assert (root / "sys/devices/system/cpu/cpu7/online").read_text().strip() == "0"  # of 15W


def test_a_sweep_goes_on_in_whole_modes_alone(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    before = snapshot(root)
    modes = modes_of(root)
    with hold_machine(root, settle_s=SETTLE_S) as held:
        set_fault(root, "gating_busy", 16)
        with pytest.raises(DeviceError, match="half-way to power mode 15W, and the board is in"):
            held.set(modes["15W"])
        # Clocks one by one begin from the mode that was found, which is put back whole first.
        (custom,) = choose_modes("gpu=612MHz,cores=8", root, identify(root))
        steps: list[str] = []
        held._actor._on_step = lambda step: steps.append(str(step))
        held.set(custom)
        assert any("nvpmodel -m 2" in step for step in steps)
        set_fault(root, "gating_busy", None)
        assert held.set(modes["15W"]).name == "15W"
    set_fault(root, "gating_busy", None)
    assert snapshot(root) == before


def test_what_cannot_be_put_back_is_said_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = create_board("agx-orin", tmp_path)
    is_busy = True

    def settle(seconds: float) -> None:
        """As long as it is to last, and until a busy GPU's mask is that of 15W again."""
        time.sleep(seconds)
        assert not is_busy or awaited(lambda: (root / MASK).read_text().strip() == "248")

    monkeypatch.setattr("mansard.device.holding.restoring.time", SimpleNamespace(sleep=settle))
    with running(root):
        modes = modes_of(root)
        hold = hold_machine(root, settle_s=SETTLE_S)
        hold.__enter__()
        hold.set(modes["15W"])
        set_fault(root, "gating_busy", 19)
        assert has_caught_up(root)
        with pytest.raises(DeviceError, match="not everything is restored") as failed:
            hold.__exit__(None, None, None)
        assert "power mode 30W: nvpmodel stopped half-way" in failed.value.what
        assert "tpc_pg_mask wanted 240, found 248" in failed.value.what
        assert "reboot" in failed.value.what
        journal = root / "var/lib/mansard/journal.json"
        assert journal.is_file()
        with pytest.raises(DeviceError, match="wanted 240, found 248"):
            restore(root)  # still busy
        assert journal.is_file()
        set_fault(root, "gating_busy", None)
        assert has_caught_up(root)
        is_busy = False
        restored = restore(root)
        assert restored is not None
        assert "power mode 15W → 30W" in restored.changes
        assert not journal.exists()
        assert (root / MASK).read_text().strip() == "240"


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["agx_orin", "orin_nano_4gb"])
def test_the_recorded_words(shared_data: Path, tmp_path: Path, name: str) -> None:
    words = (shared_data / f"cases/04/nvpmodel_m_stderr_{name}.txt").read_text()
    assert set_mode(board_that(tmp_path, words, 255, notes=True), 7).kind == "partial"


def test_a_mode_that_nvpmodel_refuses_to_put_back_is_said(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    tool = root / "usr/sbin/nvpmodel"
    with running(root):
        hold = hold_machine(root, settle_s=SETTLE_S)
        hold.__enter__()
        hold.set(modes_of(root)["15W"])
        whole = tool.rename(tool.with_name("nvpmodel.whole"))
        tool.write_text(
            f"""#!/bin/sh
[ "$1" = -m ] && echo "NVPM ERROR: failed to set power mode!" && exit 255
exec {whole} "$@"
"""
        )
        tool.chmod(0o755)
        with pytest.raises(DeviceError, match="not everything is restored") as failed:
            hold.__exit__(None, None, None)
        assert "power mode 30W: nvpmodel says NVPM ERROR: failed to set" in failed.value.what
        whole.rename(tool)
        restored = restore(root)
        assert restored is not None
        assert "power mode 15W → 30W" in restored.changes
