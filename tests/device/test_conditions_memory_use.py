"""The use of the memory's bandwidth: by the activity monitor of every release, while trials run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mansard.core.records import MemoryUse
from mansard.device.conditions import Watch, disturbances, find_sources
from mansard.device.conditions.surroundings import ACTIVITIES, find_memory_monitor, memory_use_of
from mansard.simulator import create_board as create_simulated
from mansard.simulator import running, set_load
from tests.analytics.factory import window as energy_window
from tests.device.conditions_machine import conditions, create_board, mode, put
from tests.waiting import awaited

EMC_HZ = 3.199e9


@pytest.mark.parametrize("path", ACTIVITIES)
def test_activity_over_the_clock_is_the_share(tmp_path: Path, path: str) -> None:
    put(tmp_path, path[1:], 799_750)
    found = find_memory_monitor(tmp_path, uses_gpu=False)
    # 799 750 kHz of 3 199 000 kHz
    assert (found.source, found.read_share(EMC_HZ)) == ("actmon", 0.25)
    assert found.read_share(None) is None
    put(tmp_path, path[1:], 3_250_000)  # 1.6 % above the clock: read a moment apart
    assert found.read_share(EMC_HZ) == 1.0
    for wrong in (6_000_000, -1, "junk", ""):
        put(tmp_path, path[1:], wrong)
        assert found.read_share(EMC_HZ) is None


def test_without_a_monitor_the_reason_says_so(tmp_path: Path) -> None:
    found = find_memory_monitor(tmp_path, uses_gpu=True)
    assert found.read_share(EMC_HZ) is None
    assert found.why_not == "there is no activity monitor of the memory, or only root can read it"


def test_readings_of_the_trial_alone_count(tmp_path: Path) -> None:
    board = create_board(tmp_path)
    put(board, ACTIVITIES[1][1:], 0)
    sources = find_sources(board, (0,))
    with Watch(board, (0,), 3600.0, sources=sources) as watch:
        pass
    assert watch.conditions.unknown["memory_use"] == "no reading while it ran gave a value"
    # (0.5 + 0.75) / 2
    use = MemoryUse(mean_share=0.625, low_share=0.5, high_share=0.75, n_readings=2, source="actmon")
    assert memory_use_of("actmon", [0.5, None, 0.75]) == use
    assert disturbances(conditions(memory_use=use), mode()) == ()


def test_readings_in_energy_windows_alone_count_where_there_are_some(tmp_path: Path) -> None:
    board = create_board(tmp_path)
    put(board, ACTIVITIES[1][1:], 799_750)
    sources, start_s = find_sources(board, (0,)), time.monotonic()
    with Watch(board, (0,), 0.02, sources=sources) as watch:
        assert awaited(lambda: watch.conditions.memory_use is not None)
        busy_s = time.monotonic() - start_s
        put(board, ACTIVITIES[1][1:], 0)
        n_busy = watch.conditions.memory_use.n_readings  # type: ignore[union-attr]
        assert awaited(lambda: watch.conditions.memory_use.n_readings > n_busy + 1)  # type: ignore[union-attr]
    watch.windows = (energy_window({}, [], start_s=start_s, window_s=busy_s),)
    # a quarter in use while it ran, nothing after
    use = watch.conditions.memory_use
    assert use is not None
    assert (use.low_share, use.mean_share, use.high_share) == (0.25, 0.25, 0.25)
    watch.windows = (energy_window({}, [], start_s=start_s - 2, window_s=1.0),)
    assert watch.conditions.unknown["memory_use"] == "no reading while it ran gave a value"


@pytest.mark.parametrize("name", ["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"])
def test_a_simulated_board_shows_the_use_of_its_load(tmp_path: Path, name: str) -> None:
    root = create_simulated(name, tmp_path)
    set_load(root, cpu=0.1, gpu=0.4, memory=0.6)
    sources = find_sources(root, (0,))

    def share() -> float:
        return sources.read_memory_share() or 0.0

    with running(root):
        # cactmon holds whole kHz: within 1 kHz of a clock above 100 MHz
        assert awaited(lambda: abs(share() - 0.6) < 1e-5)
        with Watch(root, (0,), 0.02, sources=sources) as watch:
            assert awaited(lambda: watch.conditions.memory_use is not None)
    use = watch.conditions.memory_use
    assert use is not None
    assert (use.source, round(use.mean_share, 4)) == ("actmon", 0.6)
