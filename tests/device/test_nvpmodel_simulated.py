"""The modes of simulated boards, set through their tool, and what the tree then holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.holding.hold import hold_machine
from mansard.device.identity import identify
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.nvpmodel.tool import probe, query, reboot_modes, set_mode
from mansard.device.power_modes.listing import list_board
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import read_int
from mansard.simulator import create_board, running, set_fault

# So that the simulated kernel, a process, answers a write before it is read back.
pytestmark = pytest.mark.usefixtures("before_others")

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


def test_caps_are_shown_planned_and_set_as_the_board_takes_them(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    path = root / "etc/nvpmodel.conf"
    text = path.read_text()
    start = text.index("NAME=MODE_15W")
    end = text.index("POWER_MODEL", start)
    section = text[start:end]
    for old, new in (
        ("CPU_A78_0 MAX_FREQ 1113600", "CPU_A78_0 MAX_FREQ 1150000"),
        ("GPU MAX_FREQ 408000000", "GPU MAX_FREQ 500000000"),
        ("EMC MAX_FREQ 2133000000", "EMC MAX_FREQ 5000000000"),
    ):
        assert section.count(old) == 1
        section = section.replace(old, new)
    path.write_text(text[:start] + section + text[end:])
    # Its steps in MHz: CPU 1036.8, 1113.6, 1190.4; GPU 408, 510; EMC up to 3199.
    wanted = (1113.6e6, 408e6, 3199e6)
    with running(root):
        listing = list_board(root)
        (shown,) = [one.resolved for one in listing.modes if one.mode.name == "15W"]
        assert (shown.cpu_hz, shown.gpu_hz, shown.memory_hz) == wanted
        (note,) = [one for one in listing.notes if "its own steps" in one]
        assert note.endswith("CPU 1150MHz → 1113MHz, GPU 500MHz → 408MHz, EMC 5000MHz → 3199MHz")
        (mode,) = choose_modes("15W", root, identify(root))
        assert (mode.cpu_hz, mode.gpu_hz, mode.memory_hz) == wanted
        assert [one.max_hz for one in mode.clusters] == [1113.6e6]
        with hold_machine(root) as held:
            found = held.set(mode)
        assert (found.cpu_hz, found.gpu_hz, found.memory_hz) == wanted


def test_cores_whose_clock_no_mode_sets_are_a_cluster_of_their_own(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    path = root / "etc/nvpmodel.conf"
    lines = path.read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if "NAME=CPU_A78_2" in line)
    end = next(n for n, line in enumerate(lines) if n > at and line.startswith("<"))
    kept = lines[:at] + [line for line in lines[end:] if not line.startswith("CPU_A78_2 ")]
    path.write_text("".join(kept))
    with running(root):
        (mode,) = choose_modes("50W", root, identify(root))
        assert [one.cpus for one in mode.clusters] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
        assert mode.clusters[2].unknown == {"max_hz": "this mode does not set it"}
        with hold_machine(root) as held:  # it said: asks for 12 cores, 12 are there
            assert held.set(mode).n_cpus == 12
