"""The modes of simulated boards, set through their tool, and what the tree then holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import probe, query, reboot_modes, set_mode
from mansard.device.power_modes.listing import list_board
from mansard.device.system import read_int
from mansard.simulator import create_board, set_fault

# Board -> its module, default, number of modes, and CUDA cores in the fastest mode (data sheets).
BOARDS = {
    "agx-orin": ("Jetson AGX Orin 64GB", "30W", 4, 2048),
    "orin-nano-super": ("Jetson Orin Nano 8GB", "25W", 3, 1024),
    "xavier-nx": ("Jetson Xavier NX", "10W_DESKTOP", 9, 384),
    "tx2": ("Jetson TX2", "MAXP_CORE_ALL", 4, 256),
    "thor": ("Jetson Thor T5000", "120W", 4, None),  # what its mask's bits mean is not published
}


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_lists_its_modes_with_numbers(tmp_path: Path, name: str) -> None:
    module, default, n_modes, cores = BOARDS[name]
    listing = list_board(create_board(name, tmp_path))
    assert listing.is_simulated
    assert (listing.module, listing.default, listing.present) == (module, default, default)
    assert len(listing.modes) == n_modes
    assert listing.ignored == ()
    counts = [one.modelled.cuda_cores for one in listing.modes]
    assert max((count for count in counts if count), default=None) == cores
    for one in listing.modes:
        for field in ("cpu_hz", "gpu_hz", "memory_hz"):
            assert getattr(one.resolved, field) is not None, (one.mode.name, field)
        assert (one.modelled.fp32_flop_per_s is None) is (cores is None)
        assert one.modelled.memory_bytes_per_s is not None


def test_the_tree_holds_what_the_mode_says(agx_orin: Path) -> None:
    (found,) = (one for one in read_modes(agx_orin).modes if one.mode.name == "15W")
    assert set_mode(agx_orin, found.id).kind == "set"
    assert query(agx_orin).name == "15W"
    folder = agx_orin / "sys/devices/system/cpu"
    online = [read_int(folder / f"cpu{cpu}/online") for cpu in range(1, 12)]
    assert online == [1, 1, 1] + [0] * 8
    assert read_int(folder / "cpu0/cpufreq/scaling_max_freq") == 1_113_600  # kHz
    # The clusters of a mode do not hang on which one is set.
    assert [one.mode for one in read_modes(agx_orin).modes if one.id == found.id] == [found.mode]


def test_modes_that_need_a_reboot_are_found_by_trying(agx_orin: Path) -> None:
    modes = read_modes(agx_orin)
    assert set(reboot_modes(agx_orin, modes, query(agx_orin).name)) == {"MAXN", "15W", "50W"}
    set_fault(agx_orin, "reboot_modes", [1])
    outcomes = probe(agx_orin, modes.modes)
    assert {name: one.kind for name, one in outcomes.items()} == {
        "MAXN": "set",
        "15W": "reboot",
        "30W": "set",
        "50W": "set",
    }
    assert "Reboot required for changing to this power mode: 1" in outcomes["15W"].text
    assert query(agx_orin).name == "30W"
