"""Recommendations whose answer can be seen at a glance."""

from __future__ import annotations

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.decisions.alternatives import Baseline, highest_mode
from mansard.analytics.decisions.records import Recommendation, Wanted
from mansard.core.errors import UsageError
from tests.analytics.answers import recommend, recommend_each
from tests.analytics.decide_factory import DEVICE, frame, row
from tests.analytics.model_factory import board_modes, network_predictions

# Energy over time: 10 W, 20 W, 30 W and 40 W.
FOUR = [
    row("15W", 0.040, 0.40, spread=1.1),
    row("30W", 0.018, 0.36, spread=1.1),
    row("50W", 0.014, 0.42, spread=1.1),
    row("MAXN", 0.012, 0.48, spread=1.1),
]
MAXN = Baseline("the board's highest mode", "MAXN")


def chosen(found: Recommendation) -> str:
    assert found.choice is not None
    return found.choice.mode


@pytest.mark.parametrize(
    ("wanted", "mode"),
    [
        (Wanted(minimise="energy"), "30W"),  # 0.36 J
        (Wanted(minimise="latency"), "MAXN"),  # 12 ms
        (Wanted(minimise="power"), "15W"),  # 10 W
        # 0.016, 0.00648, 0.00588 and 0.00576 J·s
        (Wanted(minimise="edp"), "MAXN"),
        (Wanted(minimise="energy", max_latency_s=0.016), "50W"),  # the least of 0.42 and 0.48 J
        (Wanted(minimise="latency", max_power_w=35.0), "50W"),
        (Wanted(minimise="latency", max_energy_j=0.40), "30W"),
        (Wanted(minimise="power", min_fps=60.0), "50W"),  # 71 and 83 items/s keep it for certain
    ],
)
def test_the_best_that_keeps_the_limits_is_chosen(wanted: Wanted, mode: str) -> None:
    found = recommend(frame(FOUR), wanted)
    assert found.verdict == "feasible"
    assert chosen(found) == mode
    assert mode in found.sentence


def test_what_keeps_a_limit_by_a_hair_is_not_chosen_silently() -> None:
    # 18 ms of at most 18.5 ms: z = ln(18.5 / 18) / (ln 1.1 / 1.96) = 0.5634, Φ = 0.7134
    wanted = Wanted(max_latency_s=0.0185)
    found = recommend(frame(FOUR), wanted)
    assert chosen(found) == "50W"
    (lost,) = [each for each in found.neighbours if each.candidate.mode == "30W"]
    assert "with a probability of only 71" in lost.why_lost
    assert "90\u00a0% required" in lost.why_lost
    relaxed = recommend(frame(FOUR), Wanted(max_latency_s=0.0185, probability=0.5))
    assert chosen(relaxed) == "30W"
    assert relaxed.checks[0].probability == pytest.approx(0.7134, abs=1e-4)


def test_where_nothing_is_as_likely_as_asked_the_likeliest_is_taken_and_said() -> None:
    rows = [row("15W", 0.0199, 0.2, spread=1.1), row("30W", 0.0195, 0.4, spread=1.1)]
    found = recommend(frame(rows), Wanted(max_latency_s=0.020))
    assert (found.verdict, chosen(found), found.n_feasible) == ("uncertain", "30W", 0)
    assert found.sentence.replace("\u00a0", " ").startswith(
        "No mode is known to meet the 20 ms limit for net in fp16 with a probability of 90 %. "
        "30W is likeliest to, with 70 % (19.5 ± 2.0 ms, "
    )
    assert "least energy" not in found.sentence
    assert found.why[0].replace("\u00a0", " ") == (
        "none of 2 candidates is known to meet each limit with a probability of 90 %, 2 are "
        "uncertain"
    )
    assert found.equals == ()


def test_infeasible_limits_are_answered_by_the_nearest_and_by_what_would_do() -> None:
    # Excess of the worse limit: 15W 40/16 − 1 = 1.5; 30W 20/15 − 1 = 0.333, 18/16 − 1 = 0.125;
    # 50W 30/15 − 1 = 1; MAXN 40/15 − 1 = 1.67.
    wanted = Wanted(max_latency_s=0.016, max_power_w=15.0)
    found = recommend(frame(FOUR), wanted, [MAXN])
    assert found.verdict == "infeasible"
    assert not found.is_feasible
    assert [each.mode for each in found.nearest] == ["30W", "50W", "15W", "MAXN"]
    assert [check.excess for check in found.checks] == pytest.approx([0.125, 1 / 3])
    latency, power = found.relaxations
    # At 15 W only 15W is left, at most 16 ms only 50W and MAXN; the new limits hold with 90 %:
    # 40 ms and 30 W times 1.1^(1.28155 / 1.95996) = 1.06429.
    assert (latency.quantity, latency.candidate.mode) == ("latency", "15W")
    assert latency.limit == pytest.approx(0.0425716, abs=1e-6)
    assert (power.quantity, power.candidate.mode) == ("power", "50W")
    assert power.limit == pytest.approx(31.9287, abs=1e-3)
    assert found.unknown["most_excess"] == "no mode is known to meet the limits"


def test_the_nearest_mode_breaks_all_limits_least() -> None:
    # MAXN: 2.755 s of 1 s and 15.6 W of 7 W, 2.755 · 2.229 = 6.14; 15W: 2.822 · 10.2 / 7 = 4.11.
    rows = [row("MAXN", 2.755, 2.755 * 15.6), row("15W", 2.822, 2.822 * 10.2)]
    found = recommend(frame(rows), Wanted(max_latency_s=1.0, max_power_w=7.0))
    assert [each.mode for each in found.nearest] == ["15W", "MAXN"]


def test_the_nearest_mode_at_its_roof_is_so_by_its_value() -> None:
    # 15W: 3 s, its ceilings between 1.5 and 6; 30W: 2.8 s, between 2 and 3.92. The limit is 1 s.
    rows = [row("15W", 3.0, spread=2.0), row("30W", 2.8, spread=1.4)]
    found = recommend(
        frame([each | {"interval": "roof"} for each in rows]), Wanted(max_latency_s=1.0)
    )
    assert [each.mode for each in found.nearest] == ["30W", "15W"]


def test_all_modes_of_a_short_list_are_shown() -> None:
    rows = [row(f"mode{at}", 0.010 + at / 1000, 0.2 + at / 100) for at in range(5)]
    found = recommend(frame(rows), Wanted())
    assert found.choice is not None
    assert found.choice.mode == "mode0"  # the best in all, alone on the front
    assert [each.candidate.mode for each in found.neighbours] == [f"mode{at}" for at in range(1, 5)]


def test_where_no_single_limit_can_give_way_it_is_said() -> None:
    found = recommend(frame(FOUR), Wanted(max_latency_s=0.011, max_power_w=9.0))
    assert found.relaxations == ()
    assert found.sentence.endswith("One looser limit is not enough.")
    assert found.choice is not None
    # Worst shares: 15W 40/11, 30W 20/9 = 2.22, 50W 30/9, MAXN 40/9
    assert found.choice.mode == "30W"


def test_what_the_numbers_are_without_is_said() -> None:
    found = recommend(frame([row("15W", 1.0, 2.0, notes="no launch cost is known")]), Wanted())
    assert "no launch cost is known" in found.notes
    both = [row("15W", 1.0, 2.0), row("15W", 0.5, 1.0, precision="int8")]
    assert any(
        "chosen among fp16 and int8" in note for note in recommend(frame(both), Wanted()).notes
    )


def test_the_relaxed_limit_is_one_that_a_mode_keeps() -> None:
    wanted = Wanted(max_latency_s=0.016, max_power_w=15.0)
    for way in recommend(frame(FOUR), wanted).relaxations:
        enough = way.limit * (1 + 1e-9)
        is_power = way.quantity == "power"
        relaxed = Wanted(
            max_latency_s=0.016 if is_power else enough, max_power_w=enough if is_power else 15.0
        )
        again = recommend(frame(FOUR), relaxed)
        assert (again.verdict, chosen(again)) == ("feasible", way.candidate.mode)


def test_rounding_breaks_no_limit() -> None:
    # 1 / (1 / x) is not x here
    latency_s = 0.04858278584440438
    assert 1 / (1 / latency_s) != latency_s
    found = recommend(
        frame([row("15W", latency_s, 1.0, spread=1.0)]), Wanted(min_fps=1 / latency_s)
    )
    assert (found.verdict, found.checks[0].excess) == ("feasible", 0.0)


def test_a_rate_is_relaxed_downwards() -> None:
    found = recommend(frame(FOUR), Wanted(min_fps=100.0))
    (way,) = found.relaxations
    # 12 ms · 1.06429 an item: 78.3 items/s hold with 90 %
    assert (way.quantity, way.asked, way.candidate.mode) == ("rate", 100.0, "MAXN")
    assert way.limit == pytest.approx(78.30, abs=0.01)
    # 100 · 0.012 − 1 = 0.2 slower than asked
    assert found.checks[0].excess == pytest.approx(0.2)


def test_savings_are_ratios_to_the_same_batch_in_another_mode() -> None:
    found = recommend(frame(FOUR), Wanted(), [MAXN, Baseline("the board's default mode", "40W")])
    maxn, default = found.savings
    # 18 / 12, 0.36 / 0.48, 20 / 40
    assert maxn.latency_ratio == pytest.approx(1.5)
    assert maxn.energy_ratio == pytest.approx(0.75)
    assert maxn.power_ratio == pytest.approx(0.5)
    assert "energy −25 %, power −50 %, time +50 %" in found.sentence.replace("\u00a0", " ")
    assert default.other is None
    assert default.unknown["other"] == "mode 40W has no prediction at batch 1"


def test_neighbours_say_what_they_give_and_take() -> None:
    found = recommend(frame(FOUR), Wanted())
    words = {each.candidate.mode: each.why_lost.replace("\u00a0", " ") for each in found.neighbours}
    # 18 − 14 ms, 30 − 20 W, 0.42 − 0.36 J; and 10 W less for 22 ms. 0.40 and 0.36 J: ln 1.11 is
    # less than √2 · ln 1.1
    assert words["50W"] == "4 ms faster, but 10 W more and 60 mJ more per item"
    assert words["15W"] == "10 W less, but 22 ms slower; no clear difference in energy"


def test_equals_are_those_that_the_intervals_do_not_tell_apart() -> None:
    # Half widths of ln 1.1 each: reach √2 · ln 1.1 = 0.1348. ln(0.40 / 0.36) = 0.105 lies within,
    # ln(0.42 / 0.36) = 0.154 does not.
    found = recommend(frame(FOUR), Wanted())
    assert [each.mode for each in found.equals] == ["15W"]


def test_the_stated_uncertainty_is_the_worst_case_of_all_intervals() -> None:
    # 0.36 · 1.1 against 0.40 / 1.1, the least that any other may take: 1.089 − 1
    assert recommend(frame(FOUR), Wanted()).most_excess == pytest.approx(0.089)
    # 30W may keep 17 ms (18 / 1.1 = 16.4): 0.42 · 1.1 against 0.36 / 1.1
    found = recommend(frame(FOUR), Wanted(max_latency_s=0.017))
    assert chosen(found) == "50W"
    assert found.most_excess == pytest.approx(0.411667, abs=1e-6)


def test_ties_go_to_the_shorter_time_then_by_name() -> None:
    rows = [row("b", 2.0, 1.0), row("c", 1.0, 1.0), row("a", 2.0, 1.0)]
    assert chosen(recommend(frame(rows), Wanted())) == "c"
    assert chosen(recommend(frame([rows[0], rows[2]]), Wanted())) == "a"


@given(st.integers(0, 10_000))
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    rows = [row(f"m{at}", 1.0 + at % 3, 2.0 - at % 2, spread=1.05) for at in range(8)]
    shuffled = rows[:]
    random.Random(seed).shuffle(shuffled)
    wanted = Wanted(max_latency_s=2.5)
    assert recommend(frame(shuffled), wanted) == recommend(frame(rows), wanted)


def test_batches_are_chosen_by_the_energy_of_an_item_and_the_time_of_a_batch() -> None:
    rows = [
        row("30W", 0.010, 0.20, batch=1, spread=1.01),  # 0.2 J per item, 100 items/s
        row("30W", 0.030, 0.60, batch=4, spread=1.01),  # 0.15 J per item, 133 items/s
        row("30W", 0.100, 2.24, batch=16, spread=1.01),  # 0.14 J per item, 160 items/s
    ]
    found = recommend(frame(rows), Wanted())
    assert found.choice is not None
    assert found.choice.batch == 16
    assert found.choice.energy_j == pytest.approx(0.14)
    assert found.choice.fps == pytest.approx(160.0)
    limited = recommend(frame(rows), Wanted(max_latency_s=0.050)).choice
    assert limited is not None
    assert limited.batch == 4
    single = recommend(frame(rows), Wanted(batches=(1,))).choice
    assert single is not None
    assert single.batch == 1


def test_without_energy_the_fastest_can_still_be_found() -> None:
    rows = [
        row("15W", 0.04, reason="no meter was read"),
        row("30W", 0.02, reason="no meter was read"),
    ]
    assert chosen(recommend(frame(rows), Wanted(minimise="latency"))) == "30W"
    found = recommend(frame(rows), Wanted(minimise="energy"))
    assert (found.verdict, found.choice) == ("unknown", None)
    assert "power meter" in found.sentence
    assert "no meter was read" in found.sentence


def test_candidates_without_energy_are_left_out_and_counted() -> None:
    found = recommend(frame([*FOUR, row("best?", 0.010)]), Wanted(minimise="energy"))
    assert chosen(found) == "30W"
    assert any(
        note.startswith("the energy of 1 of 5 candidates is unknown, so they are left out")
        for note in found.notes
    )
    assert (found.n_candidates, found.n_unknown) == (5, 1)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, None])
def test_impossible_times_and_energies_are_never_chosen(bad: float | None) -> None:
    rows = [*FOUR, {**row("bad", 1.0, 1.0), "latency_s": bad}]
    assert chosen(recommend(frame(rows), Wanted(minimise="latency"))) == "MAXN"
    rows = [*FOUR, {**row("bad", 1.0, 1.0), "energy_j": bad}]
    assert chosen(recommend(frame(rows), Wanted(minimise="energy"))) == "30W"


def test_nothing_to_choose_from_is_an_answer_too() -> None:
    found = recommend(frame([]), Wanted())
    assert (found.verdict, found.n_candidates) == ("unknown", 0)
    found = recommend(frame(FOUR), Wanted(batches=(3,)))
    assert "nothing was predicted at batch 3" in found.sentence


@pytest.mark.parametrize(
    "wanted",
    [Wanted(max_power_w=0.0), Wanted(max_latency_s=math.nan), Wanted(probability=1.0)],
)
def test_limits_that_bound_nothing_are_refused(wanted: Wanted) -> None:
    with pytest.raises(UsageError):
        recommend(frame(FOUR), wanted)


def test_one_recommendation_for_each_network_and_the_highest_mode_to_compare_with() -> None:
    modes = board_modes()
    found = recommend_each(
        network_predictions(modes), modes, Wanted(), {modes["device"][0]: "gpu306-emc666"}
    )
    assert [each.network for each in found] == ["heavy", "mobile", "small"]
    assert [saving.mode for saving in found[0].savings] == ["MAXN", "gpu306-emc666"]


def test_two_networks_are_not_one_question() -> None:
    with pytest.raises(UsageError, match="one network, there are 2: net, other"):
        recommend(frame([*FOUR, row("15W", 1.0, network="other")]), Wanted())


@pytest.mark.parametrize(
    ("names", "gpu_hz", "highest"),
    [
        (["15W", "MAXN"], [3e9, 1e9], "MAXN"),
        (["MAXN", "MAXN_SUPER"], [2e9, 1e9], "MAXN_SUPER"),
        (["a", "b"], [1e9, 2e9], "b"),
        (["b", "a"], [1e9, 1e9], "a"),
        (["a", "b"], [None, 1e9], "b"),
    ],
)
def test_the_highest_mode_is_the_unlimited_one_or_that_of_the_highest_clocks(
    names: list[str], gpu_hz: list[float | None], highest: str
) -> None:
    modes = (
        board_modes()
        .head(2)
        .with_columns(
            pl.Series("mode", names), pl.Series("gpu_hz", gpu_hz, pl.Float64), device=pl.lit(DEVICE)
        )
    )
    assert highest_mode(modes) == highest


def test_a_roof_and_a_measurement_are_not_compared_in_numbers() -> None:
    rows = [
        row("30W", 0.020, 0.4, spread=1.03, source="measured"),
        row("MAXN", 0.010, 0.5, spread=1.01, interval="roof"),
    ]
    found = recommend(frame(rows), Wanted())
    assert chosen(found) == "30W"
    words = [each.why_lost for each in found.neighbours if each.candidate.mode == "MAXN"]
    assert words == ["not compared: known by its roof alone"]
