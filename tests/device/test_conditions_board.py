"""The watch on the simulated AGX Orin: its daemon throttles and overloads, the record says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.conditions import Watch, disturbances, find_sources
from mansard.simulator import create_board, running, set_fault
from tests.device.conditions_machine import mode
from tests.waiting import awaited

# So that the simulated kernel, a process, answers a write before it is read back.
pytestmark = pytest.mark.usefixtures("before_others")

CPUS = (0, 1, 2, 3)


@pytest.mark.parametrize("name", ["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"])
def test_every_board_tells_everything(tmp_path: Path, name: str) -> None:
    root = create_board(name, tmp_path)
    with Watch(root, CPUS, 3600.0) as watch:
        pass
    assert set(watch.conditions.unknown) == {  # of two readings
        "temperature_slope_c_per_s",
        "memory_use",
    }
    assert disturbances(watch.conditions, mode("present")) == ()


def test_throttling_is_seen_and_said(agx_orin: Path) -> None:
    sources = find_sources(agx_orin, CPUS)
    with running(agx_orin), Watch(agx_orin, CPUS, 0.01, sources=sources) as watch:
        set_fault(agx_orin, "throttle", True)
        assert awaited(lambda: any(sources.throttling.read_alarms()))
        assert awaited(lambda: (watch.conditions.n_throttle_events or 0) > 0)
    assert any("throttled" in said for said in disturbances(watch.conditions, mode()))


def test_over_current_events_are_seen_and_said(agx_orin: Path) -> None:
    sources = find_sources(agx_orin, CPUS)
    before = sources.overcurrent.read_counts()
    with running(agx_orin), Watch(agx_orin, CPUS, 3600.0, sources=sources) as watch:
        set_fault(agx_orin, "over_current", 2)
        assert awaited(lambda: sources.overcurrent.read_counts() != before)
    assert watch.conditions.n_overcurrent_events == 2
    assert "2 over-current events" in disturbances(watch.conditions, mode())
