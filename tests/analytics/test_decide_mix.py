"""Mixes of networks: one mode for all, or modes in turn."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.decisions.mix_records import IdlePower, Mix, MixAnswer, Task
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.roof_times import expected_span_s
from mansard.analytics.decisions.time_sharing import keeps_waits, lower_hull, share_time
from mansard.analytics.decisions.workload import constant_powers
from mansard.core.errors import InputError, UsageError
from tests.analytics.answers import decide_mix, decide_mixes
from tests.analytics.decide_factory import frame, row
from tests.analytics.model_factory import DEVICE, board_coefficients

# Two networks in a slow and in a fast mode; idle 4 W and 8 W.
# "eyes": 40 ms and 0.4 J, or 16 ms and 0.48 J. "ears": 5 ms and 0.05 J, or 2 ms and 0.06 J.
ROWS = [
    row("slow", 0.040, 0.40, network="eyes"),
    row("fast", 0.016, 0.48, network="eyes"),
    row("slow", 0.005, 0.05, network="ears"),
    row("fast", 0.002, 0.06, network="ears"),
]


def idle(**watts: float) -> dict[str, IdlePower]:
    """Exact idle powers of modes."""
    return {
        mode: IdlePower(value_w=watt, low_w=watt, high_w=watt, source="constant power")
        for mode, watt in watts.items()
    }


IDLE = idle(slow=4.0, fast=8.0)


def tasks(eyes: float, ears: float) -> tuple[Task, ...]:
    return (Task(network="eyes", rate_per_s=eyes), Task(network="ears", rate_per_s=ears))


def test_a_mode_that_keeps_up_is_priced_with_what_it_idles() -> None:
    # slow: busy 15 · 0.04 + 40 · 0.005 = 0.8; 15 · 0.4 + 40 · 0.05 + 0.2 · 4 = 8.8 W
    answer = decide_mix(frame(ROWS), Mix(tasks=tasks(15, 40)), Wanted(), IDLE)
    assert answer.one_mode is not None
    assert answer.one_mode.modes == ("slow",)
    assert answer.one_mode.busy == pytest.approx(0.8)
    assert answer.one_mode.power_w == pytest.approx(8.8)
    # Fast costs 15 · (0.48 − 4 · 0.016) for eyes, more than slow's 15 · (0.4 − 4 · 0.04).
    assert answer.schedule is None
    assert "One mode for 2 networks: slow" in answer.sentence


def test_networks_on_their_roofs_are_busy_for_at_least_their_share() -> None:
    rows = [
        row("slow", 0.040, 0.40, network="eyes", interval="roof"),
        row("slow", 0.005, 0.05, network="ears"),
    ]
    answer = decide_mix(frame(rows), Mix(tasks=tasks(15, 40)), Wanted(), IDLE)
    # 0.8 as above, of which nothing tells how much more the eyes take; and so their power
    said = "slow, busy for at least 80\u00a0% of the time (by the roofs alone for eyes)."
    assert said in answer.sentence
    assert answer.one_mode is not None
    assert answer.one_mode.roofed() == ("eyes",)
    assert any(note.startswith("eyes: not measured on") for note in answer.notes)
    assert not any("ears" in note for note in answer.notes)


def test_by_their_roofs_networks_are_expected_to_keep_up_at_the_longest_recorded_times() -> None:
    rows = frame(
        [
            row("slow", 0.002, 0.02, network="eyes", interval="roof"),
            row("fast", 0.001, 0.04, network="eyes", interval="roof"),
        ]
    )

    def plan_at(rate_per_s: float, max_latency_s: float | None = None) -> MixAnswer:
        task = Task(network="eyes", rate_per_s=rate_per_s, max_latency_s=max_latency_s)
        return decide_mix(rows, Mix(tasks=(task,)), Wanted(), IDLE, has_ratios=True)

    slow_s, fast_s = expected_span_s([0.002, 0.001])[1]
    # Between the corners (329 µs, 11.4 ms), (1.93 ms, 32.6 ms) and (2.99 ms, 42.1 ms), times 1.25:
    # 1.25 · (11.4 + 671 / 1601 · 21.2) and 1.25 · (32.6 + 70 / 1060 · 9.5)
    assert (fast_s, slow_s) == pytest.approx((0.02536, 0.04153), rel=1e-3)
    # By its roof alone slow is busy for 6 % at 30 items/s; at its longest time for 125 %.
    answer = plan_at(30)
    assert answer.one_mode is not None
    assert (answer.one_mode.modes[0], answer.one_mode.is_expected) == ("fast", True)
    assert answer.one_mode.busy_high == pytest.approx(30 * fast_s)
    assert "fast, expected to keep up, busy for 3.0\u00a0% to 77\u00a0% of" in answer.sentence
    slower = plan_at(10).one_mode
    assert slower is not None
    assert slower.modes[0] == "slow"
    # A limit between the longest times leaves one mode, one below both none that is known.
    limited = plan_at(10, 0.03).one_mode
    assert limited is not None
    assert limited.modes[0] == "fast"
    assert "No mode is known to run eyes within the limits" in plan_at(10, 0.02).sentence
    assert plan_at(200).one_mode is None


def test_a_mode_of_more_power_with_a_lower_clock_is_noted_of_a_mix() -> None:
    rows = frame([row(mode, 0.010, 0.2, network="eyes") for mode in ("15W", "30W")])
    modes = rows.select("device", "mode", cpu_hz=pl.Series([2e9, 1e9]))
    modes = pl.concat([pl.DataFrame(schema=MODE_SCHEMA), modes], how="diagonal")
    mix = Mix(tasks=(Task(network="eyes", rate_per_s=10),))
    (answer,) = decide_mixes(rows, mix, Wanted(), {}, None, modes)
    assert any(note.startswith("30W has a CPU clock of 1000 MHz, 15W") for note in answer.notes)
    (answer,) = decide_mixes(rows, mix, Wanted(), {}, None, modes.filter(mode="30W"))
    assert not any("nominal power" in note for note in answer.notes)


def test_a_mode_that_does_not_keep_up_is_not_taken_however_cheap() -> None:
    # slow: 20 · 0.04 + 60 · 0.005 = 1.1. fast: 0.32 + 0.12 = 0.44;
    # 20 · 0.48 + 60 · 0.06 + 0.56 · 8 = 17.68 W
    answer = decide_mix(frame(ROWS), Mix(tasks=tasks(20, 60)), Wanted(), IDLE)
    assert answer.one_mode is not None
    assert answer.one_mode.modes == ("fast",)
    assert answer.one_mode.power_w == pytest.approx(17.68)
    # In turn: 0.11 too much, as 0.01 is left for switching. Beyond the idle 4 W, a second saved
    # costs for eyes
    # (0.48 − 0.064 − 0.4 + 0.16) / 0.024 = 7.33 W, for ears (0.06 − 0.008 − 0.05 + 0.02) / 0.003 =
    # 7.33 W alike: the first by order, eyes, runs fast for 0.11 / (0.8 − 0.32) = 22.92 %.
    assert answer.schedule is not None
    assert answer.schedule.busy == pytest.approx(0.99)
    # 4 + (20 · 0.24 + 60 · 0.03) + 0.11 · 7.3333 = 11.4067 W
    assert answer.schedule.power_w == pytest.approx(11.40667, abs=1e-5)
    fast = [share for share in answer.schedule.shares if share.mode == "fast"]
    assert sum(share.busy for share in fast) == pytest.approx(0.32 * 0.2291667, abs=1e-6)


def test_a_slower_mode_that_saves_idling_beats_one_of_less_energy() -> None:
    # 30 items/s of 40 ms and 0.4 J, or of 16 ms and 0.36 J. Fast alone and idle in slow:
    # 30 · 0.36 + 0.52 · 4 = 12.88 W. Slow as far as it goes, 1.2 − 0.72 y = 0.99, y = 0.29167:
    # 30 · (0.70833 · 0.4 + 0.29167 · 0.36) + 0.01 · 4 = 11.69 W.
    rows = frame([row("slow", 0.040, 0.40), row("fast", 0.016, 0.36)])
    mix = Mix(tasks=(Task(network="net", rate_per_s=30.0),))
    schedule = decide_mix(rows, mix, Wanted(), IDLE).schedule
    assert schedule is not None
    assert schedule.power_w == pytest.approx(11.69, abs=1e-5)


def test_rates_add_up_to_what_was_asked_for() -> None:
    answer = decide_mix(frame(ROWS), Mix(tasks=tasks(20, 60)), Wanted(), IDLE)
    assert answer.schedule is not None
    for network, rate in (("eyes", 20.0), ("ears", 60.0)):
        done = sum(s.rate_per_s for s in answer.schedule.shares if s.network == network)
        assert done == pytest.approx(rate)


def test_nothing_keeps_up_and_it_is_said_by_how_much() -> None:
    # fast: 100 · 0.016 + 200 · 0.002 = 2.0: half of the rates
    answer = decide_mix(frame(ROWS), Mix(tasks=tasks(100, 200)), Wanted(), IDLE)
    assert (answer.one_mode, answer.schedule) == (None, None)
    assert answer.keeps_up == pytest.approx(0.5)
    assert "50 % of the rates" in answer.sentence.replace("\u00a0", " ")


def test_switching_that_eats_the_round_leaves_the_single_mode() -> None:
    mix = Mix(tasks=tasks(20, 60), switch_s=0.5, period_s=1.0)
    answer = decide_mix(frame(ROWS), mix, Wanted(), IDLE)
    assert answer.one_mode is not None
    assert answer.schedule is None
    # 2 switches of 10 ms in a round of 1 s: 2 % less time, 0.12 too much, 0.12 · 7.3333 more
    mix = Mix(tasks=tasks(20, 60), switch_s=0.01, period_s=1.0)
    quick = decide_mix(frame(ROWS), mix, Wanted(), IDLE).schedule
    assert quick is not None
    assert quick.lost == pytest.approx(0.02)
    assert quick.busy == pytest.approx(0.98)
    assert quick.power_w == pytest.approx(4 + 6.6 + 0.12 * 7.33333, abs=1e-4)


def test_items_of_a_schedule_wait_for_their_mode() -> None:
    # One network, 30 items/s of 20 ms in 25W: busy 60 %; 7W is slower and idles at 3 W, not 6.
    rows = frame([row("25W", 0.020, 0.20), row("7W", 0.060, 0.60)])
    powers = idle(**{"25W": 6.0, "7W": 3.0})
    free = Task(network="net", rate_per_s=30.0)
    mix = Mix(tasks=(free,), switch_s=0.05, period_s=10.0)
    schedule = decide_mix(rows, mix, Wanted(), powers).schedule
    assert schedule is not None
    assert set(schedule.modes) == {"25W", "7W"}
    # 40 % of 10 s in 7W
    assert schedule.shares[0].wait_s == pytest.approx(4.0)
    # With a limit of 100 ms on the latency there is none, known period or not.
    limited = replace(free, max_latency_s=0.1)
    for one in (replace(mix, tasks=(limited,)), Mix(tasks=(limited,))):
        assert decide_mix(rows, one, Wanted(), powers).schedule is None
    # 4 s and 20 ms are within 5 s.
    patient = Mix(tasks=(replace(free, max_latency_s=5.0),), switch_s=0.05, period_s=10.0)
    assert decide_mix(rows, patient, Wanted(), powers).schedule is not None
    # Without a period the wait is unknown.
    unknown = decide_mix(rows, Mix(tasks=(free,)), Wanted(), powers)
    assert unknown.schedule is not None
    assert unknown.schedule.shares[0].wait_s is None
    assert "How long items wait for their mode is unknown" in unknown.sentence


def test_modes_of_different_sms_are_in_no_schedule() -> None:
    rows = frame([row("25W", 0.020, 0.20), row("7W", 0.060, 0.60)])
    powers = idle(**{"25W": 6.0, "7W": 3.0})
    mix = Mix(tasks=(Task(network="net", rate_per_s=30.0),))
    assert decide_mix(rows, mix, Wanted(), powers, {"25W": 8, "7W": 8}).schedule is not None
    answer = decide_mix(rows, mix, Wanted(), powers, {"25W": 8, "7W": 4})
    assert answer.schedule is None
    assert answer.one_mode is not None
    # 30 · 0.2 + 0.4 · 6 W, not 0.4 · 3 W
    assert answer.one_mode.power_w == pytest.approx(8.4)


def test_a_schedule_that_waits_too_long_leaves_the_next_one() -> None:
    # 8 SMs, at 30 items/s: 60 % busy, 6 W and 40 % of 3 W in 7W: 7.2 W, and waits of 4 s.
    # 4 SMs: 90 % busy, 7.5 W and 10 % of 1 W in 5W: 7.6 W, and waits of 1 s. In 20W alone 7.9 W.
    rows = [row("25W", 0.020, 0.20), row("7W", 0.060, 0.60)]
    rows += [row("20W", 0.030, 0.25), row("5W", 0.060, 0.60)]
    powers = idle(**{"25W": 6.0, "7W": 3.0, "20W": 4.0, "5W": 1.0})
    sms = {"25W": 8, "7W": 8, "20W": 4, "5W": 4}
    free = Task(network="net", rate_per_s=30.0)
    for most_s, modes, power_w in ((None, {"25W", "7W"}, 7.2), (2.0, {"20W", "5W"}, 7.6)):
        mix = Mix(tasks=(replace(free, max_latency_s=most_s),), switch_s=1e-6, period_s=10.0)
        schedule = decide_mix(frame(rows), mix, Wanted(), powers, sms).schedule
        assert schedule is not None
        assert set(schedule.modes) == modes
        assert schedule.power_w == pytest.approx(power_w, rel=1e-4)


def test_waits_of_a_schedule_by_roofs_count_with_the_longest_recorded_times() -> None:
    schedule = decide_mix(frame(ROWS), Mix(tasks=tasks(20, 60)), Wanted(), IDLE).schedule
    assert schedule is not None
    known: dict[str, Any] = {"latency_s": 0.001, "latency_high_s": 0.0011, "wait_s": 1.0}
    known["interval"] = "roof"
    shares = [
        msgspec.structs.replace(
            share,
            unknown={name: why for name, why in share.unknown.items() if name not in known},
            **known,
        )
        for share in schedule.shares
    ]
    plan = msgspec.structs.replace(schedule, shares=tuple(shares))
    mix = Mix(tasks=tuple(replace(task, max_latency_s=1.01) for task in tasks(20, 60)))
    assert keeps_waits(plan, mix)  # 1 s and the bound of 1 ms
    expected = msgspec.structs.replace(plan, is_expected=True)
    assert not keeps_waits(expected, mix)  # a bound of 1 ms has been 25 ms


def test_a_plan_idles_in_no_mode_that_was_not_asked_for() -> None:
    rows = frame([row("25W", 0.020, 0.20)])
    device = str(rows["device"][0])
    modes = pl.DataFrame([{"device": device, "mode": "25W"}], schema=MODE_SCHEMA)
    mix = Mix(tasks=(Task(network="net", rate_per_s=30.0),))
    powers = {device: idle(**{"25W": 6.0, "7W": 3.0})}
    (answer,) = decide_mixes(rows, mix, Wanted(), powers, None, modes)
    assert answer.schedule is None
    assert answer.one_mode is not None
    assert answer.one_mode.power_w == pytest.approx(8.4)


def test_unknown_switching_time_is_said() -> None:
    answer = decide_mix(frame(ROWS), Mix(tasks=tasks(20, 60)), Wanted(), IDLE)
    assert answer.schedule is not None
    assert answer.schedule.unknown["lost"] == "how long a switch takes is unknown"
    assert "How long a switch takes is unknown" in answer.sentence


def test_without_constant_power_the_idle_part_is_in_no_sum() -> None:
    answer = decide_mix(frame(ROWS), Mix(tasks=tasks(15, 40)), Wanted(), {})
    plan = answer.one_mode
    assert plan is not None
    assert plan.power_w is None
    assert plan.unknown["power_w"].startswith("the idle power is unknown")
    assert plan.active_w == pytest.approx(8.0)  # 15 · 0.4 + 40 · 0.05
    assert any("the idle power is unknown" in note for note in answer.notes)


def test_the_wait_for_a_batch_counts_against_the_latency() -> None:
    rows = [row("slow", 0.04, 0.4, network="eyes"), row("slow", 0.1, 0.8, batch=4, network="eyes")]
    # At 10 items/s three more items take 0.3 s to come: 0.4 s in all.
    for most_s, batch in ((0.5, 4), (0.39, 1)):
        task = Task(network="eyes", rate_per_s=10.0, max_latency_s=most_s)
        plan = decide_mix(frame(rows), Mix(tasks=(task,)), Wanted(), IDLE).one_mode
        assert plan is not None
        assert plan.shares[0].batch == batch
    task = Task(network="eyes", rate_per_s=10.0, max_latency_s=0.01)
    answer = decide_mix(frame(rows), Mix(tasks=(task,)), Wanted(), IDLE)
    assert answer.keeps_up == 0.0
    assert "No mode runs eyes within the limits" in answer.sentence


def test_uncertain_times_must_fit_as_likely_as_asked() -> None:
    # 0.95 busy; with 90 % below 0.95 · 1.1^0.65387 = 1.011: too much, though not as predicted
    rows = frame([row("slow", 0.095, 0.5, spread=1.1), row("fast", 0.05, 0.8, spread=1.1)])
    mix = Mix(tasks=(Task(network="net", rate_per_s=10.0),))
    sure = decide_mix(rows, mix, Wanted(minimise="latency", probability=0.9), {}).one_mode
    likely = decide_mix(rows, mix, Wanted(probability=0.5), {}).one_mode
    assert sure is not None
    assert likely is not None
    assert (sure.modes, likely.modes) == (("fast",), ("slow",))


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (Task(network="nose", rate_per_s=1.0), "nothing is predicted for nose"),
        (Task(network="eyes", rate_per_s=1.0, batches=(3,)), "nothing is predicted for eyes"),
        (Task(network="eyes", rate_per_s=0.0), "is not a task"),
        (Task(network="eyes", rate_per_s=math.nan), "is not a task"),
    ],
)
def test_tasks_that_cannot_be_are_refused(task: Task, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        decide_mix(frame(ROWS), Mix(tasks=(task,)), Wanted(), IDLE)


def test_energy_is_asked_for_only_where_it_decides() -> None:
    rows = frame([row("slow", 0.04), row("fast", 0.02)])
    mix = Mix(tasks=(Task(network="net", rate_per_s=10.0),))
    with pytest.raises(InputError, match="the energy of net is unknown"):
        decide_mix(rows, mix, Wanted(), {})
    answer = decide_mix(rows, mix, Wanted(minimise="latency"), {})
    assert answer.one_mode is not None
    assert answer.one_mode.modes == ("fast",)
    with pytest.raises(UsageError, match="no energy-delay product"):
        decide_mix(rows, mix, Wanted(minimise="edp"), {})


def test_a_device_that_lacks_a_network_does_not_stop_the_others() -> None:
    other = [{**row("slow", 0.001, 0.4, network="eyes"), "device": "another"}]
    mix = Mix(tasks=tasks(15, 40))
    first, second = decide_mixes(frame([*ROWS, *other]), mix, Wanted(), {})
    assert first.one_mode is not None
    assert (second.device, second.one_mode) == ("another", None)
    assert "nothing is predicted for ears" in second.sentence
    with pytest.raises(UsageError, match="nothing is predicted for ears"):
        decide_mixes(frame(other), mix, Wanted(), {})


def test_modes_without_constant_power_compete_only_where_none_has_one() -> None:
    rows = [
        *ROWS,
        row("bare", 0.016, 0.1, network="eyes"),
        row("bare", 0.002, 0.01, network="ears"),
    ]
    priced = decide_mix(frame(rows), Mix(tasks=tasks(15, 40)), Wanted(), IDLE).one_mode
    assert priced is not None
    assert priced.modes == ("slow",)  # what "bare" draws at rest is not known
    unpriced = decide_mix(frame(rows), Mix(tasks=tasks(15, 40)), Wanted(), idle(gone=1.0)).one_mode
    assert unpriced is not None
    assert unpriced.modes == ("bare",)


def test_constant_powers_come_from_the_coefficients() -> None:
    # 6 W + 4 W · 0.306 + 1 W · 0.6656
    powers = constant_powers(board_coefficients())
    assert list(powers) == [DEVICE]
    power = powers[DEVICE]["gpu306-emc666"]
    assert power.value_w == pytest.approx(7.8896)
    assert power.source == "constant power"


OPTION = st.tuples(st.integers(1, 20), st.integers(1, 20))


@settings(max_examples=150)
@given(
    st.lists(st.lists(OPTION, min_size=1, max_size=4), min_size=1, max_size=3), st.integers(3, 60)
)
def test_the_linear_programme_is_solved_exactly(
    options: list[list[tuple[int, int]]], capacity: int
) -> None:
    times = [np.array([float(t) for t, _ in task]) for task in options]
    costs = [np.array([float(c) for _, c in task]) for task in options]
    found = share_time(times, costs, float(capacity))
    best = brute_force(options, capacity)
    if best is None:
        assert found is None
        return
    assert found is not None
    pairs = [(task, part) for task, parts in enumerate(found) for part in parts]
    for task in range(len(options)):
        assert sum(part.share for at, part in pairs if at == task) == pytest.approx(1.0)
    used = sum(float(times[task][part.option]) * part.share for task, part in pairs)
    cost = sum(float(costs[task][part.option]) * part.share for task, part in pairs)
    assert used <= capacity * (1 + 1e-9)
    assert cost == pytest.approx(best)


def brute_force(options: list[list[tuple[int, int]]], capacity: int) -> float | None:
    """A basic solution splits one task at most: every choice of options, every split of one."""
    best: float | None = None
    for chosen in itertools.product(*options):
        for task, others in enumerate(options):
            for other in others:
                cost = _split(chosen, task, other, capacity)
                if cost is not None and (best is None or cost < best):
                    best = cost
    return best


def _split(
    chosen: tuple[tuple[int, int], ...], task: int, other: tuple[int, int], capacity: int
) -> float | None:
    """The cost where ``task`` is split so that the capacity is just used, or not split at all."""
    time, cost = sum(t for t, _ in chosen), sum(c for _, c in chosen)
    if time <= capacity:
        return float(cost)
    saved = chosen[task][0] - other[0]
    if saved <= 0 or time - saved > capacity:
        return None
    return cost + (time - capacity) / saved * (other[1] - chosen[task][1])


def test_the_hull_leaves_out_what_a_mixture_beats() -> None:
    # (4, 1), (2, 4), (1, 5): half of the first and of the last is (2.5, 3); at time 2 it is 3.67
    time, cost = np.array([4.0, 2.0, 1.0, 4.0]), np.array([1.0, 4.0, 5.0, 2.0])
    assert lower_hull(time, cost) == [0, 2]


def one(rate_per_s: float, **more: Any) -> Mix:
    return Mix(tasks=(Task(network="net", rate_per_s=rate_per_s, **more),))


BATCHES = [row("slow", 0.04, 0.4), row("slow", 0.64, 3.2, batch=64)]


def test_a_larger_batch_is_chosen_only_where_it_is_opened() -> None:
    # A batch of 64 halves the energy of an item, and the first item waits 63 / 30 = 2.1 s for it.
    def batch_of(mix: Mix) -> int:
        plan = decide_mix(frame(BATCHES), mix, Wanted(), idle(slow=4.0)).one_mode
        assert plan is not None
        return plan.shares[0].batch

    assert batch_of(one(24.0)) == 1
    assert batch_of(one(24.0, batches=(1, 64))) == 64
    # 63 / 24 + 0.64 = 3.265 s from the arrival of the first item to its result
    assert batch_of(one(24.0, max_latency_s=3.3)) == 64
    assert batch_of(one(24.0, max_latency_s=3.2)) == 1


def test_without_a_row_of_one_item_the_smallest_batch_is_taken() -> None:
    rows = frame([row("slow", 0.1, 0.8, batch=4), row("slow", 0.64, 3.2, batch=64)])
    plan = decide_mix(rows, one(10.0), Wanted(), idle(slow=4.0)).one_mode
    assert plan is not None
    assert plan.shares[0].batch == 4
    assert plan.shares[0].wait_s == pytest.approx(0.3)


def test_the_mean_power_has_the_ends_of_energy_and_idle_power() -> None:
    # 10 items/s of 40 ms and 0.4 J (0.36 to 0.44): 4 W (3.6 to 4.4); 60 % idle at 4 W (3.5 to 5)
    rows = frame(
        [{**row("slow", 0.04, 0.4, interval="spread"), "energy_low_j": 0.36, "energy_high_j": 0.44}]
    )
    power = IdlePower(value_w=4.0, low_w=3.5, high_w=5.0, source="given")
    plan = decide_mix(rows, one(10.0), Wanted(), {"slow": power}).one_mode
    assert plan is not None
    # 4 + 0.6 · 4 = 6.4 W; 3.6 + 0.6 · 3.5 = 5.7 W; 4.4 + 0.6 · 5 = 7.4 W
    ends = (plan.power_w, plan.power_low_w, plan.power_high_w)
    assert ends == pytest.approx((6.4, 5.7, 7.4))
    assert plan.idle_source == "given"


def test_modes_within_the_uncertainty_are_a_tie() -> None:
    # 10 items/s, 20 ms each, idle 4 W for 80 %: 3.2 W and 10 · E: 7.2, 7.3 and 9.2 W. The spread
    # of 5 % of E: 4 W to 4.2 W, 4.1 W down to 3.905 W. ln(7.3 / 7.2) = 0.0138 is below
    # √(ln(7.4 / 7.2)² + ln(7.3 / 7.105)²) = 0.0385; ln(9.2 / 7.2) = 0.245 is not.
    modes = {"a": 0.40, "b": 0.41, "c": 0.60}
    rows = frame([row(mode, 0.02, energy_j, spread=1.05) for mode, energy_j in modes.items()])
    answer = decide_mix(rows, one(10.0), Wanted(), idle(a=4.0, b=4.0, c=4.0))
    assert answer.one_mode is not None
    assert answer.one_mode.modes == ("a",)
    assert [plan.modes[0] for plan in answer.others] == ["b", "c"]
    assert answer.equals == ("b",)
    assert "No clear difference from b." in answer.sentence


def test_without_idle_power_the_choice_is_in_doubt() -> None:
    rows = frame([row("a", 0.02, 0.4), row("b", 0.02, 0.5)])
    doubt = "Idle power is unknown and may change the choice"
    assert doubt in decide_mix(rows, one(10.0), Wanted(), {}).sentence
    answer = decide_mix(rows, one(10.0), Wanted(), idle(a=4.0))
    assert doubt not in answer.sentence
    assert "Not compared as single modes, since their idle power is unknown: b." in answer.sentence
    assert doubt not in decide_mix(rows, one(10.0), Wanted(minimise="latency"), {}).sentence


def test_an_answer_without_a_plan_names_its_device() -> None:
    priceless = {**row("a", 0.02), "device": "another"}
    rows = frame([row("a", 0.02, 0.4), priceless])
    first, second = decide_mixes(rows, one(10.0), Wanted(minimise="power"), {})
    assert first.one_mode is not None
    said = "Nothing can be recommended for another: the energy of net is unknown in every mode"
    assert second.sentence.startswith(said)


def test_a_constant_power_beside_a_given_idle_power_is_named() -> None:
    rows = frame([row("a", 0.02, 0.4), row("b", 0.02, 0.5)])
    given = IdlePower(value_w=3.0, low_w=3.0, high_w=3.0, source="given")
    said = "The idle power of b is a constant power, an upper estimate."
    assert said in decide_mix(rows, one(10.0), Wanted(), {**idle(b=4.0), "a": given}).sentence
    assert said not in decide_mix(rows, one(10.0), Wanted(), idle(a=4.0, b=4.0)).sentence


def test_idle_powers_do_not_matter_where_time_is_minimised() -> None:
    rows = frame([row("a", 0.02, 0.4), row("b", 0.01, 0.5)])
    answer = decide_mix(rows, one(10.0), Wanted(minimise="latency"), idle(a=4.0))
    assert answer.one_mode is not None
    assert answer.one_mode.modes == ("b",)
    assert "Not compared" not in answer.sentence
