"""Which modes to measure next: spread before anything is known, then where it may pay."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.decisions.next_modes import Plan, plan_next
from mansard.analytics.decisions.outlook import block_of, find_terms, prior_outlook
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.models.scaling.network_terms import setting_values
from mansard.analytics.pages.words.next_modes import plan_in_words
from mansard.core.errors import UsageError
from mansard.core.hardware import SETTINGS
from tests.analytics.network_truth import modes, name, observe, some

GPU = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
GRID = modes(GPU, (0.8, 1.6, 3.2))
LINE = modes(tuple(round(0.1 * step, 1) for step in range(2, 14)))


def picked(plan: Plan) -> list[str]:
    return [pick.mode for pick in plan.picks]


def time_s(gpu: float, memory: float) -> float:
    return max(0.006 / gpu, 0.006 / memory) + 0.002 / gpu + 0.001


def power_w(gpu: float, memory: float) -> float:
    return 3 + 2 * gpu + 3 * gpu**3 + 0.5 * memory


def test_a_first_plan_reaches_to_the_ends_of_each_clock() -> None:
    plan = plan_in_words(plan_next(GRID, n=6))
    chosen = some(GRID, picked(plan))
    for clock in ("gpu_hz", "memory_hz"):
        assert chosen[clock].min() == GRID[clock].min()
        assert chosen[clock].max() == GRID[clock].max()
    # of no network in particular: where the modes lie is said, and no error is promised
    assert all(pick.reason.startswith("part of the set: ") for pick in plan.picks)
    assert plan.n_designed == 6
    assert all(pick.improvement is None for pick in plan.picks)


# 30W runs its CPU at 1.2 GHz, 15W at 2.4 GHz; MAXN names no power below 30 W.
NAMED = pl.DataFrame(
    [
        {"device": "board", "mode": mode, "gpu_hz": gpu_hz, "cpu_hz": cpu_hz}
        for mode, gpu_hz, cpu_hz in (("15W", 6e8, 2.4e9), ("30W", 9e8, 1.2e9), ("MAXN", 1.3e9, 3e9))
    ],
    schema=MODE_SCHEMA,
)


def test_a_planned_mode_of_more_power_with_a_lower_clock_is_noted() -> None:
    note = (
        "30W has a CPU clock of 1200 MHz, 15W 2400 MHz: a network bound by its host (launches, "
        "work on the CPU) is slower in 30W, though its nominal power is higher"
    )
    assert note in plan_in_words(plan_next(NAMED, n=3)).notes
    # 30W is already measured, so the plan has only the two other modes, which need no note.
    left = plan_in_words(plan_next(NAMED, n=3, measured=NAMED.filter(mode="30W")))
    assert sorted(picked(left)) == ["15W", "MAXN"]
    assert not any("nominal power" in line for line in left.notes)


def test_a_first_plan_expects_less_error_than_random_choices() -> None:
    indices = {mode: at for at, mode in enumerate(GRID["mode"].to_list())}
    start = prior_outlook(setting_values(GRID), "energy", np.zeros(GRID.height, bool))

    def error(chosen: list[int]) -> float:
        outlook = start
        for at in chosen:
            outlook = outlook.measured(at)
        return outlook.error()

    random = np.random.default_rng(1)
    draws = [error(random.choice(18, 6, replace=False).tolist()) for _ in range(200)]
    planned = error([indices[mode] for mode in picked(plan_in_words(plan_next(GRID, n=6)))])
    assert planned <= min(draws) * (1 + 1e-9)


BOARD = pl.DataFrame(
    [
        {
            "device": "board",
            "mode": f"{gpu:g} {sms} {memory:g} {cpu:g}",
            "gpu_hz": gpu * 1e9,
            "n_sms": sms,
            "memory_hz": memory * 1e9,
            "cpu_hz": cpu * 1e9,
        }
        for gpu in (0.3, 0.6, 0.9, 1.3)
        for sms in (4, 8, 16)
        for memory in (0.7, 2.1, 3.2)
        for cpu in (0.7, 1.5, 2.2)
    ],
    schema=MODE_SCHEMA,
)


@pytest.mark.parametrize("candidates", [GRID, LINE, BOARD], ids=["grid", "line", "board"])
def test_four_modes_reach_both_ends_of_every_setting(candidates: pl.DataFrame) -> None:
    plan = plan_in_words(plan_next(candidates, n=4))
    assert plan.n_designed == 4
    chosen = some(candidates, picked(plan))
    for setting in ("gpu_hz", "n_sms", "memory_hz", "cpu_hz"):
        assert chosen[setting].min() == candidates[setting].min()
        assert chosen[setting].max() == candidates[setting].max()


def test_no_two_settings_go_together_in_four_modes() -> None:
    chosen = some(BOARD, picked(plan_in_words(plan_next(BOARD, n=4))))
    logs = chosen.select(pl.col("gpu_hz", "memory_hz", "cpu_hz").log()).to_numpy().T
    between = np.corrcoef(logs)[np.triu_indices(3, 1)]
    assert (np.abs(between) < 0.9).all()


def test_one_measured_mode_is_completed_to_four_and_two_are_decided_from() -> None:
    # The lowest clocks of both are measured: the two highest are in one mode, or in two
    known = [name(0.2, 0.8)]
    found = observe(some(GRID, known), time_s, power_w)
    plan = plan_in_words(plan_next(GRID, found, n=5))
    assert plan.n_designed >= 3
    together = some(GRID, known + picked(plan)[:3])
    for clock in ("gpu_hz", "memory_hz"):
        assert together[clock].max() == GRID[clock].max()
    found = observe(some(GRID, [*known, name(0.2, 3.2), name(1.2, 0.8)]), time_s, power_w)
    plan = plan_in_words(plan_next(GRID, found, n=5))
    assert plan.n_designed == 0
    assert not any(pick.reason.startswith("part of the set") for pick in plan.picks)


def test_fewer_than_four_modes_are_picked_and_it_is_said() -> None:
    plan = plan_in_words(plan_next(GRID, n=2))
    assert len(plan.picks) == 2
    assert plan.notes == ("fewer than 4 measured modes predict the others badly: use --next 4",)


@pytest.mark.parametrize(("n", "note"), [
    (2, "there are only 3 modes, too few for predictions: measure all of them"),
    (4, "there are only 3 modes"),
])  # fmt: skip
def test_a_board_with_three_modes_is_never_asked_for_four(n: int, note: str) -> None:
    plan = plan_in_words(plan_next(GRID.head(3), n=n))
    assert len(plan.picks) == min(n, 3)
    assert note in plan.notes
    assert not any("4" in line for line in plan.notes)


def test_each_pick_lessens_the_expected_error_of_those_before() -> None:
    errors = [
        (pick.error_before, pick.error_after) for pick in plan_in_words(plan_next(GRID, n=8)).picks
    ]
    assert all(after < before for before, after in errors)
    assert [before for before, _ in errors[1:]] == pytest.approx(
        [after for _, after in errors[:-1]]
    )


def test_the_order_of_the_rows_does_not_matter() -> None:
    found = observe(some(GRID, [name(0.2, 0.8), name(0.6, 3.2), name(1.2, 0.8)]), time_s, power_w)
    there = plan_in_words(plan_next(GRID, found, n=4))
    back = plan_in_words(plan_next(GRID.reverse(), found.reverse(), n=4))
    assert back == there


def test_what_is_measured_is_not_measured_again() -> None:
    first = picked(plan_in_words(plan_next(GRID, n=6)))
    found = observe(some(GRID, first), time_s, power_w)
    second = plan_in_words(plan_next(GRID, found, n=12))
    assert not set(first) & set(picked(second))
    assert second.n_measured == 6
    # also where a mode was measured without a network, under another name with the same clocks
    renamed = some(GRID, first).with_columns(mode=pl.concat_str(pl.lit("run "), "mode"))
    third = plan_in_words(plan_next(GRID, n=12, measured=renamed))
    assert not set(first) & set(picked(third))


def test_more_than_there_are_is_all_there_are() -> None:
    plan = plan_in_words(plan_next(GRID, observe(GRID.head(16), time_s, power_w), n=10))
    assert sorted(picked(plan)) == sorted(GRID["mode"].to_list()[16:])
    assert plan.notes == ("2 of 18 modes are left to measure",)


@pytest.mark.parametrize(
    ("minimise", "best"),
    [
        ("latency", name(1.3)),  # the fastest clock
        ("power", name(0.2)),  # the slowest
    ],
)
def test_it_looks_where_the_objective_may_be_better(minimise: str, best: str) -> None:
    known = [name(0.4), name(0.7), name(0.9), name(1.1)]
    found = observe(some(LINE, known), time_s, power_w)
    plan = plan_in_words(plan_next(LINE, found, n=1, wanted=Wanted(minimise=minimise)))  # type: ignore[arg-type]
    assert picked(plan) == [best]
    assert plan.picks[0].improvement > 0  # type: ignore[operator]
    assert plan.picks[0].reason.startswith("may lower the")


def test_the_least_energy_is_found_in_few_steps() -> None:
    energy = observe(LINE, time_s, power_w).with_columns(
        energy_j=pl.col("latency_s") * pl.col("power_w")
    )
    best = energy.sort("energy_j")["mode"][0]
    assert best not in (LINE["mode"][0], LINE["mode"][-1])  # it lies inside
    known = picked(plan_in_words(plan_next(LINE, n=4)))
    while best not in known and len(known) < 6:
        found = observe(some(LINE, known), time_s, power_w)
        known += picked(plan_in_words(plan_next(LINE, found, n=1)))
    assert best in known


def test_no_slower_clock_promises_a_shorter_time() -> None:
    # The fastest clocks were measured: whatever the network is, no other mode is faster.
    known = [name(gpu, memory) for gpu in (0.2, 0.6, 1.2) for memory in (0.8, 3.2)]
    found = observe(some(GRID, known), time_s)
    plan = plan_in_words(plan_next(GRID, found, n=5, wanted=Wanted(minimise="latency")))
    assert [pick.improvement for pick in plan.picks] == [0.0] * 5
    assert all(pick.reason.startswith("expected error of time") for pick in plan.picks)


def test_modes_too_slow_for_the_limit_promise_little() -> None:
    # 8 ms / 0.6 GHz + 1 ms = 14.3 ms: with 12 ms no clock up to 0.6 GHz will do. They lie beyond
    # what was measured: another network could be as fast there, which leaves a few % of hope.
    known = [name(0.9), name(1.0), name(1.1), name(1.3)]
    found = observe(some(LINE, known), time_s, power_w)
    free = plan_in_words(plan_next(LINE, found, n=1))
    bound = plan_in_words(plan_next(LINE, found, n=3, wanted=Wanted(max_latency_s=0.012)))
    assert free.picks[0].settings["gpu_hz"] <= 0.6e9
    gains = {pick.mode: pick.improvement or 0.0 for pick in bound.picks}
    # The fit puts 12 ms between 0.6 and 0.7 GHz: there the decision can change.
    assert bound.picks[0].mode == name(0.7)
    assert all(gain < gains[name(0.7)] / 3 for mode, gain in gains.items() if mode < name(0.7))


def test_where_all_are_too_slow_the_first_within_the_limit_is_sought() -> None:
    # 8 ms / 0.5 GHz + 1 ms = 17 ms and more was measured; 12 ms take 0.73 GHz
    known = [name(0.2), name(0.3), name(0.4), name(0.5)]
    found = observe(some(LINE, known), time_s, power_w)
    pick = plan_in_words(plan_next(LINE, found, n=1, wanted=Wanted(max_latency_s=0.012))).picks[0]
    assert pick.settings["gpu_hz"] >= 0.8e9
    assert pick.improvement is None
    assert pick.reason.startswith("within the limits with a chance of")


def test_a_limit_before_anything_is_measured_has_no_say() -> None:
    plan = plan_in_words(plan_next(LINE, n=4, wanted=Wanted(max_latency_s=0.012)))
    assert plan.notes == ("the limits are not used yet: nothing can be predicted",)
    assert picked(plan) == picked(plan_in_words(plan_next(LINE, n=4)))


def test_a_row_more_and_a_row_less_is_as_before() -> None:
    random = np.random.default_rng(3)
    rows = random.uniform(0.5, 2, (7, 4))
    start = block_of(rows, np.arange(7) < 2, 1.0)
    more = start.changed(4, 1.0)
    exact = block_of(rows, np.isin(np.arange(7), [0, 1, 4]), 1.0)
    for name_ in ("inverse", "leverages", "reach"):
        assert getattr(more, name_) == pytest.approx(getattr(exact, name_), rel=1e-6)
        back = getattr(more.changed(4, -1.0), name_)
        assert back == pytest.approx(getattr(start, name_), rel=1e-6)
    # measuring mode 4 lessens the mean of all variances by what was said beforehand
    lessened = start.uncertainty().mean() - more.uncertainty().mean()
    assert start.lessening()[4] == pytest.approx(lessened)


def test_without_a_power_energy_cannot_be_planned_for_and_it_is_said() -> None:
    found = observe(some(GRID, picked(plan_in_words(plan_next(GRID, n=6)))), time_s)
    plan = plan_in_words(plan_next(GRID, found, n=2))
    assert plan.notes == ("energy of net cannot be predicted: power was measured in no mode",)
    assert all(pick.improvement is None for pick in plan.picks)
    assert (
        plan_in_words(plan_next(GRID, found, n=2, wanted=Wanted(minimise="latency")))
        .picks[0]
        .improvement
        is not None
    )


def test_a_clock_that_was_never_changed_is_explored() -> None:
    known = [name(gpu, 1.6) for gpu in (0.2, 0.6, 1.2)]
    found = observe(some(GRID, known), time_s, power_w)
    chosen = some(GRID, picked(plan_in_words(plan_next(GRID, found, n=2))))
    assert chosen["memory_hz"].n_unique() > 1 or 1.6e9 not in chosen["memory_hz"]


def test_limits_of_a_graphics_card_are_spread() -> None:
    limits = pl.DataFrame(
        [
            {"device": "card", "mode": f"power{watts}W", "power_limit_w": float(watts)}
            for watts in (100, 150, 200, 250, 300)
        ],
        schema=MODE_SCHEMA,
    )
    assert {"power100W", "power300W"} <= set(picked(plan_in_words(plan_next(limits, n=3))))


def test_a_setting_that_no_measured_mode_names_is_not_used() -> None:
    # Runs of the board's CPU say nothing of the GPU's clock
    grid = GRID.with_columns(cpu_hz=pl.col("memory_hz"), memory_hz=pl.lit(None, pl.Float64))
    cpu = grid.head(2).with_columns(gpu_hz=pl.lit(None, pl.Float64))
    plan = plan_in_words(plan_next(grid, n=5, measured=cpu))
    assert "the GPU clock is not used: no measured mode names it" in plan.notes
    # three CPU clocks are left of 18 modes, two of them measured
    assert len(plan.picks) == 1
    assert "gpu_hz" not in plan.picks[0].settings


def test_a_mode_without_its_clocks_is_left_out_and_said() -> None:
    odd = modes((0.5,), (None,)).with_columns(mode=pl.lit("odd"))
    plan = plan_in_words(plan_next(pl.concat([GRID, odd]), n=18))
    assert "odd" not in picked(plan)
    assert plan.notes == ("left out, their memory clock is unknown: odd",)


@pytest.mark.parametrize(
    ("candidates", "options", "message"),
    [
        (GRID.clear(), {}, "there is no mode to choose from"),
        (GRID, {"n": 0}, "cannot plan 0 modes"),
        (GRID, {"n": 1001}, "cannot plan 1001 modes"),
        (GRID, {"wanted": Wanted(max_latency_s=math.nan)}, "no time is at most nan s"),
        (GRID, {"wanted": Wanted(max_latency_s=-1.0)}, "no time is at most -1.0 s"),
        (GRID, {"wanted": Wanted(max_power_w=0.0)}, "no power is at most 0.0 W"),
        (
            pl.concat([GRID, GRID.with_columns(device=pl.lit("other"))]),
            {},
            "modes of 2 devices: board, other",
        ),
    ],
)
def test_what_cannot_be_planned_is_said(
    candidates: pl.DataFrame, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        plan_in_words(plan_next(candidates, **options))  # type: ignore[arg-type]


CLOCK = st.one_of(st.none(), st.sampled_from([0.0, -1.0, math.nan, 1e9, 2e9, 3e9]))
COUNT = st.one_of(st.none(), st.integers(0, 3))
VALUE = st.one_of(st.none(), st.sampled_from([0.0, -1.0, math.nan, math.inf, 1e-9, 0.5, 1.0, 1e9]))


@settings(max_examples=150)
@given(
    st.lists(st.tuples(CLOCK, CLOCK, CLOCK, COUNT, COUNT, CLOCK), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), VALUE, VALUE), max_size=8),
    st.sampled_from(["energy", "latency", "edp", "power"]),
)
def test_whatever_the_rows_a_plan_or_one_line(
    rows: list[tuple[object, ...]], seen: list[tuple[int, object, object]], minimise: str
) -> None:
    fields = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms", "n_cpus", "power_limit_w")
    candidates = pl.DataFrame(
        [
            {"device": "d", "mode": f"m{at}", **dict(zip(fields, row, strict=True))}
            for at, row in enumerate(rows)
        ],
        schema=MODE_SCHEMA,
    )
    template = observe(modes((1.0,)), lambda *_: 1.0, lambda *_: 1.0)
    found = pl.concat(
        [template.clear()]
        + [
            template.with_columns(
                mode=pl.lit(f"m{at}"),
                latency_s=pl.lit(time, pl.Float64),
                power_w=pl.lit(power, pl.Float64),
            )
            for at, time, power in seen
        ]
    )
    try:
        plan = plan_in_words(plan_next(candidates, found, n=5, wanted=Wanted(minimise=minimise)))  # type: ignore[arg-type]
    except UsageError:
        return
    names = picked(plan)
    assert len(set(names)) == len(names)
    for pick in plan.picks:
        assert math.isfinite(pick.error_after)
        assert pick.error_after <= pick.error_before * (1 + 1e-9)


def test_a_setting_that_no_mode_to_choose_from_names_is_not_used() -> None:
    # Runs know the clock of their CPU. A table of GPU clocks alone is no reason to plan nothing.
    ran = GRID[::2].with_columns(cpu_hz=pl.lit(2e9))
    plan = plan_in_words(
        plan_next(GRID.with_columns(cpu_hz=pl.lit(None, pl.Float64)), n=2, measured=ran)
    )
    assert len(plan.picks) == 2
    assert set(picked(plan)).isdisjoint(ran["mode"].to_list())
    assert "the CPU clock is not used: no mode to choose from names it" in plan.notes


def test_power_falls_by_no_more_than_its_terms_and_the_rate_of_the_work() -> None:
    # 2 -> 1 GHz: what runs always falls to 1, 1/2 or (1/2)³ = 1/8; the energy of the work to
    # (1/2)² = 1/4, and its rate by the slowing: 1/4 / 2 = 1/8, or 1/4 / 4 = 1/16.
    fixed = dict.fromkeys(SETTINGS, np.ones(2))
    terms = find_terms(fixed | {"gpu_hz": np.array([1e9, 2e9])})
    assert terms.least_power(1, np.array([2.0, 1.0])) == pytest.approx([1 / 8, 1])
    assert terms.least_power(1, np.array([4.0, 1.0])) == pytest.approx([1 / 16, 1])


def test_a_limit_on_power_is_kept_to() -> None:
    # The least time is at the highest clock, which draws more than what 0.5 GHz does.
    found = observe(some(LINE, [name(0.2), name(1.2)]), time_s, power_w)
    known = observe(LINE, time_s, power_w)
    most_w = float(known.filter(pl.col("mode") == name(0.5))["power_w"][0])
    fastest = Wanted(minimise="latency", max_power_w=most_w)
    pick = plan_in_words(plan_next(LINE, found, n=1, wanted=fastest)).picks[0]
    free = plan_in_words(plan_next(LINE, found, n=1, wanted=Wanted(minimise="latency"))).picks[0]
    assert pick.settings["gpu_hz"] < free.settings["gpu_hz"]
