from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.errors import StorageError, UsageError
from mansard.device.system import find_tool
from mansard.simulator import create_board, set_fault, snapshot
from mansard.simulator.faults import KNOWN, label_files, read_faults
from tests.simulator.broken_boards import five_broken_boards
from tests.simulator.simulator_bench import run, text


def test_faults_are_set_and_ended(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    set_fault(agx_orin, "throttle", value=True)
    set_fault(agx_orin, "over_current", 2)
    assert read_faults(agx_orin) == {"throttle": True, "over_current": 2}
    set_fault(agx_orin, "throttle", value=False)
    set_fault(agx_orin, "over_current", None)
    assert read_faults(agx_orin) == {}
    assert snapshot(agx_orin) == before


def test_unknown_faults_and_boards_are_refused(agx_orin: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose one of: reboot_modes"):
        set_fault(agx_orin, "earthquake", value=True)
    with pytest.raises(StorageError, match="simulated board"):
        set_fault(tmp_path / "nothing", "throttle", value=True)
    with pytest.raises(UsageError, match="no rail 'VDD_X'"):
        set_fault(agx_orin, "rail_missing", "VDD_X")


@pytest.mark.parametrize("junk", ["", "[]", "{", "\0"])
def test_junk_in_the_file_of_faults_is_no_fault(junk: str, agx_orin: Path) -> None:
    (agx_orin / "run/mansard-simulator/faults.json").write_text(junk)
    assert read_faults(agx_orin) == {}
    assert run(agx_orin, "nvpmodel", "-q").returncode == 0


@pytest.mark.parametrize("tool", ["nvpmodel", "jetson_clocks", "tegrastats"])
def test_a_tool_can_be_missing(tool: str, agx_orin: Path) -> None:
    set_fault(agx_orin, f"{tool}_missing", value=True)
    assert find_tool(agx_orin, tool) is None
    set_fault(agx_orin, f"{tool}_missing", value=False)
    assert find_tool(agx_orin, tool) is not None


@pytest.mark.parametrize(("board", "n_rails"), [("agx-orin", 4), ("tx2", 6), ("thor", 3)])
def test_a_rail_can_be_missing(board: str, n_rails: int, tmp_path: Path) -> None:
    root = create_board(board, tmp_path)
    labels = label_files(root)
    labels.pop("NC", None)
    assert len(labels) == n_rails
    label = sorted(labels)[0]
    folder, before = labels[label].parent, len(list(labels[label].parent.iterdir()))
    set_fault(root, "rail_missing", label)
    assert label not in label_files(root)
    # All files of that channel, and of no other: 10 of an INA3221, 6 of the older layout.
    assert before - len(list(folder.iterdir())) == (6 if board == "tx2" else 10)
    others = sorted(set(labels) - {label})
    assert set(others) <= set(label_files(root))


def test_labels_can_be_swapped(agx_orin: Path) -> None:
    before = label_files(agx_orin)
    set_fault(agx_orin, "labels_swapped", ["VDD_GPU_SOC", "VDDQ_VDD2_1V8AO"])
    after = label_files(agx_orin)
    assert after["VDD_GPU_SOC"] == before["VDDQ_VDD2_1V8AO"]
    assert after["VDDQ_VDD2_1V8AO"] == before["VDD_GPU_SOC"]


def test_a_file_can_be_unwritable(agx_orin: Path) -> None:
    # Root may write it all the same, so only the mode is looked at.
    path = "/sys/kernel/nvpmodel_clk_cap/emc"
    set_fault(agx_orin, "unwritable", [path])
    assert (agx_orin / path.lstrip("/")).stat().st_mode & 0o222 == 0


def test_every_fault_is_described() -> None:
    assert all(": " in meaning for meaning in KNOWN.values())


def test_five_boards_are_broken_in_five_ways(tmp_path: Path) -> None:
    boards = five_broken_boards(tmp_path)
    assert len({board.fault for board in boards}) == len({board.root for board in boards}) == 5
    meter, tool, junk, mode, journal = (board.root for board in boards)
    assert not list(meter.rglob("in1_label"))
    assert not [path for path in meter.rglob("*") if path.is_symlink() and not path.exists()]
    assert find_tool(tool, "nvpmodel") is None
    assert run(junk, "nvpmodel", "-q").returncode != 0
    assert run(mode, "nvpmodel", "-q").returncode != 0
    assert (journal / "var/lib/mansard/journal.json").stat().st_size > 1000
    assert text(journal, "var/lib/nvpmodel/status") == "pmode:0001"
