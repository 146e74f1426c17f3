"""Modes of a board: nvpmodel's by name, and its clocks one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.core.errors import MansardError, UsageError
from mansard.device.holding.acting import planned_steps
from mansard.device.power_modes.selection import available_modes, choose_modes
from mansard.simulator import create_board
from tests.device.grid_machines import machine

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")
ORIN = machine(2, "jetson")  # as a process that is kept to two CPUs sees it


def names(text: str | None, root: Path, pick: int | None = None) -> list[str]:
    return [mode.name for mode in choose_modes(text, root, ORIN, pick=pick)]


def test_nothing_is_the_mode_the_board_is_in(agx_orin: Path) -> None:
    (mode,) = choose_modes(None, agx_orin, ORIN)
    assert (mode.name, mode.kind, mode.n_cpus) == ("present", "present", 8)
    assert mode.n_sms == 8  # of the 30W mode; the board gates the others
    assert mode.gpu_hz == 612e6


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("15W", ["15W"]),
        ("maxn", ["MAXN"]),
        ("mode_30w,30W, Mode_15W", ["30W", "15W"]),
        ("all", ["MAXN", "15W", "30W", "50W"]),
    ],
)
def test_modes_are_known_by_name(text: str, chosen: list[str], agx_orin: Path) -> None:
    assert names(text, agx_orin) == chosen


def test_all_are_the_available_ones(agx_orin: Path) -> None:
    assert available_modes(agx_orin, ORIN) == choose_modes("all", agx_orin, ORIN)


@pytest.mark.parametrize("text", ["20W", "0", "MODE_", "15W,foo"])
def test_an_unknown_mode_lists_the_real_ones(text: str, agx_orin: Path) -> None:
    with pytest.raises(
        UsageError, match=r"unknown power mode .* has MAXN, 15W, 30W, 50W, or 'all'"
    ):
        choose_modes(text, agx_orin, ORIN)


@pytest.mark.parametrize(
    "text",
    [
        "gpu=612MHz,emc=2133MHz,cpu=1190MHz,cores=4",
        "cores=4, cpu=1190.4MHz, memory=2133MHz, GPU=612000kHz",
        "gpu612MHz_emc2133MHz_cpu1190MHz_4c",
    ],
)
def test_clocks_are_set_one_by_one(text: str, agx_orin: Path) -> None:
    (mode,) = choose_modes(text, agx_orin, ORIN)
    assert mode.name == "gpu612MHz_emc2133MHz_cpu1190MHz_4c"
    assert (mode.kind, mode.n_cpus, mode.n_sms) == ("clocks", 4, 8)
    assert (mode.gpu_hz, mode.memory_hz, mode.cpu_hz) == (612e6, 2133e6, 1190.4e6)
    assert [(one.cpus, one.max_hz) for one in mode.clusters] == [((0, 1, 2, 3), 1190.4e6)]


def test_what_is_not_set_stays_as_it_is(agx_orin: Path) -> None:
    (present,) = choose_modes(None, agx_orin, ORIN)
    (mode,) = choose_modes("gpu=408MHz", agx_orin, ORIN)
    assert mode.gpu_hz == 408e6
    assert mode.clusters == present.clusters
    assert (mode.n_cpus, mode.memory_hz) == (present.n_cpus, present.memory_hz)


def test_a_cluster_that_comes_on_takes_the_clock_of_the_others(agx_orin: Path) -> None:
    # 30W has 8 of 12 cores on, at 1728 MHz.
    (mode,) = choose_modes("cores=10", agx_orin, ORIN)
    assert [(one.cpus, one.max_hz) for one in mode.clusters] == [
        ((0, 1, 2, 3), 1728e6),
        ((4, 5, 6, 7), 1728e6),
        ((8, 9), 1728e6),
    ]


def test_the_same_mode_written_twice_is_one(agx_orin: Path) -> None:
    assert len(names("gpu=612MHz;gpu=612000000Hz;gpu=408MHz", agx_orin)) == 2


def test_a_clock_that_is_not_there_lists_those_that_are(agx_orin: Path) -> None:
    with pytest.raises(UsageError, match=r"gpu has no 613MHz; .* first: 612MHz, 714MHz, 510MHz"):
        choose_modes("gpu=613MHz", agx_orin, ORIN)
    with pytest.raises(UsageError, match="13 cores cannot be on; use 1 to 12"):
        choose_modes("cores=13", agx_orin, ORIN)
    with pytest.raises(UsageError, match="sms cannot be set; multiprocessors are gated"):
        choose_modes("sms=4", agx_orin, ORIN)


def test_three_of_four_modes(agx_orin: Path) -> None:
    # MAXN is without caps, so it is the fastest; 15W is the slowest.
    picked = names("all", agx_orin, pick=3)
    assert len(picked) == 3
    assert {"MAXN", "15W"} <= set(picked)


def test_a_grid_of_every_clock_of_the_board(agx_orin: Path) -> None:
    path = agx_orin / "grid.toml"
    path.write_text('gpu = "all"\nemc = "all"\ncpu = "all"\ncores = "all"\n')
    modes = choose_modes(str(path), agx_orin, ORIN, pick=12)
    assert len({mode.name for mode in modes}) == len(modes) == 12
    # The corners of its tables.
    assert {"gpu306MHz_emc204MHz_cpu729MHz_1c", "gpu1300MHz_emc3199MHz_cpu2201MHz_12c"} <= {
        mode.name for mode in modes
    }


TEXTS = st.one_of(
    st.text(alphabet="0153W,MAXN_modecpugr=;Hz "),
    st.from_regex(r"(gpu|emc|cpu|cores|dla)=[0-9]{1,4}(MHz)?(,|;)?", fullmatch=True),
    st.text(),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
def test_any_text_gives_modes_or_our_error(text: str, agx_orin: Path) -> None:
    try:
        modes = choose_modes(text, agx_orin, ORIN)
    except MansardError:
        return
    assert modes


def test_a_board_without_its_configuration_can_still_be_clocked(agx_orin: Path) -> None:
    for path in (agx_orin / "etc").glob("nvpmodel*"):
        path.unlink()
    with pytest.raises(MansardError, match="nvpmodel"):
        choose_modes("15W", agx_orin, ORIN)
    assert names("gpu=408MHz,emc=2133MHz,cores=4", agx_orin) == [
        "gpu408MHz_emc2133MHz_cpu1728MHz_4c"
    ]


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_can_do_what_a_grid_of_its_clocks_asks_for(name: str, tmp_path: Path) -> None:
    root = create_board(name, tmp_path)
    path = tmp_path / "grid.toml"
    path.write_text('gpu = "all"\nemc = "all"\ncpu = "all"\ncores = "all"\n')
    modes = choose_modes(str(path), root, ORIN, pick=6)
    assert len(modes) == 6
    assert {mode.name: mode for mode in modes} == {
        mode.name: choose_modes(mode.name, root, ORIN)[0] for mode in modes
    }
    n_cpus = len({cpu for mode in modes for cluster in mode.clusters for cpu in cluster.cpus})
    assert max(mode.n_cpus for mode in modes) == n_cpus
    for mode in modes:
        assert planned_steps(root, mode)
