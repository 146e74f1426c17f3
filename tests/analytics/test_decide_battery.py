"""How long a battery lasts with a plan for a mix."""

from __future__ import annotations

import math

import pytest

from mansard.analytics.decisions.battery import Battery, battery_life
from mansard.analytics.decisions.mix_records import IdlePower, Mix, MixPlan, Task
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.pages.words.mixes import battery_words
from mansard.core.errors import UsageError
from tests.analytics.answers import decide_mix
from tests.analytics.decide_factory import frame, row

BATTERY = Battery(capacity_j=99 * 3600, rest_w=4.0)


def plan(idle: IdlePower | None, interval: str = "spread") -> MixPlan:
    """A camera of 10 frames/s, 25 ms and 0.5 J (0.46 to 0.54) each."""
    ends = {"energy_low_j": 0.46, "energy_high_j": 0.54}
    rows = frame([{**row("15W", 0.025, 0.5, interval=interval), **ends}])
    mix = Mix(tasks=(Task(network="net", rate_per_s=10.0),))
    found = decide_mix(rows, mix, Wanted(), {} if idle is None else {"15W": idle}).one_mode
    assert found is not None
    return found


def test_the_hours_of_the_manual_with_their_range() -> None:
    # Busy 25 %; 10 · 0.5 J + 0.75 · 6 W = 9.5 W; 0.85 · 99 Wh / (9.5 + 4) W = 6.2333 h
    six = IdlePower(value_w=6.0, low_w=6.0, high_w=6.0, source="given")
    life = battery_life(BATTERY, plan(six))
    assert life.duration_s == pytest.approx(6.23333 * 3600, rel=1e-5)
    # 5.4 + 4.5 = 9.9 W: 84.15 / 13.9 = 6.05396 h; 4.6 + 4.5 = 9.1 W: 84.15 / 13.1 = 6.42366 h
    assert life.duration_low_s == pytest.approx(6.05396 * 3600, rel=1e-5)
    assert life.duration_high_s == pytest.approx(6.42366 * 3600, rel=1e-5)
    words = battery_words(life, plan(six)).replace("\u00a0", " ")
    assert words == (
        "battery: 6.23 ± 0.20 h (± of the mean power only): "
        "85 % of 99 Wh at 9.50 W and 4.00 W for the rest"
    )


def test_what_keeps_the_hours_unknown_is_said() -> None:
    six = IdlePower(value_w=6.0, low_w=6.0, high_w=6.0, source="given")
    for known, why in (
        (plan(None), "the idle power is unknown: add [idle] to the workload file"),
        (plan(six, "roof"), "only lower bounds of the times are known: measure the networks"),
        (None, "no mode keeps up"),
    ):
        life = battery_life(BATTERY, known)
        assert life.duration_s is None
        assert life.unknown["duration_s"] == why
        assert battery_words(life, known) == f"battery: unknown, {why}"


def test_without_an_interval_the_hours_have_no_range() -> None:
    fitted = IdlePower(value_w=6.0, low_w=None, high_w=None, source="constant power")
    life = battery_life(BATTERY, plan(fitted))
    assert life.duration_s == pytest.approx(6.23333 * 3600, rel=1e-5)
    assert life.duration_low_s is None
    assert "no 95 % interval" in life.unknown["duration_low_s"]


@pytest.mark.parametrize(
    ("capacity_j", "rest_w", "efficiency"),
    [(0.0, 0.0, 0.8), (math.nan, 0.0, 0.8), (1.0, -1.0, 0.8), (1.0, 0.0, 0.0), (1.0, 0.0, 1.1)],
)
def test_a_battery_that_cannot_be_is_refused(
    capacity_j: float, rest_w: float, efficiency: float
) -> None:
    with pytest.raises(UsageError):
        Battery(capacity_j=capacity_j, rest_w=rest_w, efficiency=efficiency).check()
