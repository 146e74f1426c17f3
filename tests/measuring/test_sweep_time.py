"""How long a sweep will take."""

from __future__ import annotations

import msgspec
import pytest

from mansard.measuring.protocol import MODE_CHANGE_S, PROTOCOLS, sweep_time

CAPS = msgspec.structs.replace(
    PROTOCOLS["quick"],
    time_cap_s=1.5,
    n_energy_windows=2,
    energy_window_cap_s=3.0,
    settle_cap_s=1.0,
    idle_s=2.0,
)


def test_a_sweep_takes_what_its_caps_allow() -> None:
    # A trial: 1.5 + 2 × 3 + 1 = 8.5 s; two modes of 10 and 4 trials, 3 × 2 s idle in each.
    plans = [(CAPS, 10), (CAPS, 4)]
    assert sweep_time(plans) == pytest.approx(14 * 8.5 + 2 * (6 + MODE_CHANGE_S))
    # Without a meter there is only the timing.
    assert sweep_time(plans, has_meter=False) == pytest.approx(14 * 1.5 + 2 * MODE_CHANGE_S)


def test_a_mode_with_nothing_left_is_not_visited() -> None:
    assert sweep_time([(CAPS, 5), (CAPS, 0)]) == pytest.approx(5 * 8.5 + 6 + MODE_CHANGE_S)


def test_nothing_to_do_takes_no_time() -> None:
    assert sweep_time([]) == sweep_time([(CAPS, 0)]) == 0
