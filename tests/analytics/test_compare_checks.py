"""Limits of changes: what is worse, what is within, and what would settle the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from mansard.analytics.decisions.comparing.checks import (
    AllowedChange,
    CheckedPair,
    CheckResult,
    parse_checks,
    run_checks,
    verdict_of,
)
from mansard.analytics.decisions.comparing.kinds import Kind
from mansard.analytics.decisions.comparing.pairing import pair_quantities
from mansard.analytics.decisions.comparing.sides import ComparedQuantity, Side, UnusableQuantity
from mansard.analytics.decisions.comparing.significance import (
    Centre,
    excess_test,
    find_difference,
    needed_repetitions,
)
from mansard.core.errors import UsageError

# Scatter of ±0.2 % that alternates: all samples are independent.
STEADY = tuple(1.0 + 0.002 * (-1) ** at for at in range(12))


def quantity(
    kind: Kind, name: str, *runs: Sequence[float], factor: float = 1.0
) -> ComparedQuantity:
    parts = tuple({"": tuple(factor * value for value in run)} for run in runs)
    return ComparedQuantity(
        kind=kind, name=name, unit="s", value=factor * float(np.median(runs[0])),
        low=None, high=None, runs=parts, unknown={"low": "not needed", "high": "not needed"},
    )  # fmt: skip


def side(*quantities: ComparedQuantity, unusable: Sequence[UnusableQuantity] = ()) -> Side:
    return Side(
        label="2c", device="d", processor="cpu", machine="m", mode="2c", builds=(),
        source="measured", started_utc="", facts={}, quantities=quantities,
        unusable=tuple(unusable),
    )  # fmt: skip


def results(first: Side, second: Side, *checks: str) -> tuple[CheckResult, ...]:
    pair = CheckedPair(first, second, pair_quantities(first, second))
    return run_checks(parse_checks(checks), [pair])


def verdicts(factor: float, check: str, kind: Kind = "p50") -> str:
    """Of a quantity that is ``factor`` times as much on the second side."""
    first = side(quantity(kind, "net", STEADY))
    second = side(quantity(kind, "net", STEADY, factor=factor))
    return verdict_of(results(first, second, check))


@pytest.mark.parametrize(
    ("kind", "check", "factor", "verdict"),
    [
        ("p50", "p50 +5%", 1.0, "within"),
        ("p50", "p50 +5%", 1.04, "within"),
        ("p50", "p50 +5%", 1.05, "unknown"),  # at the limit
        ("p50", "p50 +5%", 1.06, "worse"),
        ("p50", "p50 5%", 0.5, "within"),  # faster is never worse
        ("rate", "rate -5%", 0.94, "worse"),
        ("rate", "rate -5%", 0.96, "within"),
        ("rate", "rate -5%", 2.0, "within"),
        ("metric", "metric 2%", 1.03, "worse"),  # either way
        ("metric", "metric 2%", 0.97, "worse"),
        ("metric", "metric 2%", 1.01, "within"),
        ("metric", "metric -2%", 1.5, "within"),
        ("metric", "metric +2%", 0.5, "within"),
        ("metric", "metric +2%", 1.03, "worse"),
        ("memory", "default", 1.12, "worse"),
        ("memory", "default", 1.08, "within"),
        ("bandwidth", "bandwidth -0.5%", 0.98, "worse"),
    ],
)
def test_a_change_is_worse_where_it_is_larger_than_allowed(
    kind: Kind, check: str, factor: float, verdict: str
) -> None:
    assert verdicts(factor, check, kind) == verdict


def test_limits_and_their_p_by_hand() -> None:
    # d = ln 1.06, λ = ln 1.05, s = 0.005: T = (0.058269 − 0.048790) / 0.005 = 1.8958 of 10.
    shift = Centre(math.log(1.06), 0.005, 10)
    assert excess_test(shift, math.log(1.05)) == pytest.approx(student.sf(1.8958, 10), abs=1e-4)
    assert excess_test(Centre(0.0, 0.0, 1), 0.0) == 1.0
    assert excess_test(Centre(0.1, 0.0, 1), 0.0) == 0.0


def test_repetitions_that_would_settle_it_by_hand() -> None:
    # 0.01 below the limit, s = 0.01 of 10. With f = n' − 1 the fewest n' with
    # 0.01 ≥ (t(0.95) + t(0.8)) · 0.01 · √(10/n'): 67 gives (1.668 + 0.847) · 0.386 = 0.972,
    # 62 gives 2.517 · 0.4016 = 1.011. Tried are steps of 5 %.
    below, above = Centre(0.04, 0.01, 9), Centre(0.06, 0.01, 9)
    needed = needed_repetitions(below, 0.05, 10, lambda n: n - 1)
    assert needed is not None
    assert 62 < needed <= 67
    assert needed_repetitions(below, 0.05, 10, lambda n: n - 1, n_tests=10) == needed
    # Above it t(0.98): 86 gives (2.085 + 0.846) · 0.341 = 1.000, 82 gives 1.024. Of ten tests
    # t(0.998).
    worse = needed_repetitions(above, 0.05, 10, lambda n: n - 1)
    assert worse is not None
    assert 82 < worse <= 90
    more = needed_repetitions(above, 0.05, 10, lambda n: n - 1, n_tests=10)
    assert more is not None
    assert more > worse
    assert needed_repetitions(Centre(0.05, 0.01, 9), 0.05, 10, lambda n: n - 1) is None


def test_four_of_five_are_settled_by_the_repetitions_that_are_asked_for() -> None:
    # Independent noise of 2 %, the truth 2 % below the limit, 8 repetitions: what is asked for by
    # the true difference settles 80 % (±9 % for 200 draws, three standard deviations).
    random, truth, limit, noise = np.random.default_rng(1), 0.03, 0.05, 0.02
    s = noise * math.sqrt(2 / 8)
    needed = needed_repetitions(Centre(truth, s, 14), limit, 8, lambda n: 2 * n - 2)
    assert needed is not None
    settled = 0
    for _ in range(200):
        first, second = (
            [{"": np.exp(random.normal(level, noise, 1))} for _ in range(needed)]
            for level in (0.0, truth)
        )
        difference = find_difference(first, second)
        assert difference is not None
        settled += 1 - excess_test(difference, limit) < 0.05
    assert 0.7 <= settled / 200 <= 0.93


def test_an_unknown_result_says_what_would_settle_it() -> None:
    noisy = (1.0, 1.08, 0.95, 1.04, 0.97, 1.06, 0.93, 1.02)
    first, second = (
        side(quantity("p50", "net", noisy)),
        side(quantity("p50", "net", noisy, factor=1.02)),
    )
    (result,) = results(first, second, "p50 +5%")
    assert (result.verdict, result.needed_of) == ("unknown", "repetitions")
    assert result.needed is not None
    assert result.needed > 8


def test_single_values_need_a_second_run_of_each_side() -> None:
    first = side(quantity("memory", "net", (100.0,)))
    second = side(quantity("memory", "net", (120.0,)))
    (result,) = results(first, second, "memory +10%")
    assert (result.verdict, result.needed, result.needed_of) == ("unknown", 2, "runs")
    assert "--again" in result.why
    # Of the limits that nobody asked for by name, one that cannot be tested counts where it looks
    # broken, and else is left out.
    (result,) = results(first, second, "default")
    assert result.verdict == "unknown"
    near = side(quantity("memory", "net", (101.0,)))
    (result,) = results(first, near, "default")
    assert (result.quantity, result.why) == ("", "nothing that is checked was measured")
    # Two runs a side: 100, 101 and 120, 121: worse by t of 2 degrees of freedom.
    first = side(quantity("memory", "net", (100.0,), (101.0,)))
    second = side(quantity("memory", "net", (120.0,), (121.0,)))
    (result,) = results(first, second, "memory +10%")
    assert result.verdict == "worse"


def test_several_runs_are_told_by_the_scatter_between_them() -> None:
    # Levels of 1.00, 1.04 and 1.06, 1.10: d = ln √(1.06·1.10/1.04), the pooled s² is
    # (ln 1.04)²/4 + (ln(1.1/1.06))²/4 = 0.0007276 of 2: s_d = √0.0007276 = 0.026974.
    first = [{"": np.array(STEADY)}, {"": 1.04 * np.array(STEADY)}]
    second = [{"": 1.06 * np.array(STEADY)}, {"": 1.10 * np.array(STEADY)}]
    difference = find_difference(first, second)
    assert difference is not None
    assert difference.freedom == 2
    assert difference.log == pytest.approx(0.5 * math.log(1.06 * 1.10 / 1.04), abs=1e-6)
    assert difference.deviation == pytest.approx(0.026974, abs=1e-6)
    # One run a side alone would call 6 % worse than 1 %; the scatter of runs does not.
    assert verdicts(1.06, "p50 +1%") == "worse"
    one = side(quantity("p50", "net", STEADY, tuple(1.04 * value for value in STEADY)))
    other = side(quantity("p50", "net", *([1.06 * v for v in STEADY], [1.1 * v for v in STEADY])))
    (result,) = results(one, other, "p50 +1%")
    assert (result.verdict, result.needed_of) == ("unknown", "runs")


def test_what_one_side_lacks_is_not_known() -> None:
    whole = side(quantity("p50", "net", STEADY), quantity("energy", "net e", STEADY))
    why = UnusableQuantity(kind="energy", name="net e", why="no meter")
    part = side(quantity("p50", "net", STEADY), unusable=[why])
    for first, second, which in ((whole, part, "first"), (part, whole, "second")):
        found = {one.quantity: one for one in results(first, second, "p50 +5%", "energy +3%")}
        assert found["net"].verdict == "within"
        assert found["net e"].why == f"only the {which} side has it: no meter"
        assert verdict_of(list(found.values())) == "unknown"
    (result,) = results(part, part, "energy +3%")
    assert (result.verdict, result.why) == ("unknown", "no meter")
    (result,) = results(part, part, "metric 1%")
    assert (result.verdict, result.why) == ("unknown", "neither side has a value of it")


def test_a_mode_that_one_side_lacks_is_not_known() -> None:
    one = side(quantity("p50", "net", STEADY))
    pair = CheckedPair(one, one, pair_quantities(one, one))
    found = run_checks(parse_checks(["p50 +5%"]), [pair], only_first=["15W"])
    assert [(each.verdict, each.why) for each in found] == [
        ("within", ""),
        ("unknown", "only the first has 15W"),
    ]


def test_many_checks_are_corrected_together() -> None:
    # p of one is 0.03: worse alone, and not as one of two.
    first = side(quantity("p50", "a", STEADY), quantity("p50", "b", STEADY))
    values = [1.0, 1.09, 1.02, 1.075, 1.03, 1.08, 1.01, 1.1]
    alone = side(quantity("p50", "a", [0.99 * v for v in values]))
    (result,) = results(side(first.quantities[0]), alone, "p50 +2%")
    assert result.p_worse is not None
    p = result.p_worse
    both = side(*alone.quantities, quantity("p50", "b", STEADY))
    found = {one.quantity: one for one in results(first, both, "p50 +2%")}
    assert found["a"].p_worse == pytest.approx(2 * p)
    assert found["b"].verdict == "within"


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["p51 +5%"], "is not a check; write 'p50 +5%'"),
        (["p50 +5"], "is not a check"),
        (["p50 +nan%"], "is not a check"),
        (["p50 +1e9%"], "is not a check"),
        (["p50 +99999999%"], "is not a check"),
        ([""], "is not a check"),
        (["p50\x1b[31m +5%"], "is not a check"),
        (["p50 -5%"], "p50 is better when it is lower, so its limit is not -5 %; write 'p50 +5%'"),
        (["rate +5%"], "write 'rate -5%'"),
        (["rate -100%"], "rate cannot fall by 100 %"),
        (["p50 +5%", "p50 +6%"], "p50 two limits"),
    ],
)
def test_what_is_not_a_check_is_refused(texts: list[str], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_checks(texts)
    assert says in str(refused.value)


def test_a_named_limit_counts_instead_of_the_default_one() -> None:
    limits = {check.kind: check.text for check in parse_checks(["default", "p50 +1%"])}
    assert limits["p50"] == "p50 +1%"
    assert limits["memory"] == "memory +10%"
    assert limits["rate"] == "rate -5%"
    assert limits["metric"] == "metric ±5%"
    assert "layer" not in limits
    assert parse_checks([" P50  + 5 % "]) == (
        AllowedChange("p50 +5%", "p50", None, math.log1p(0.05), is_default=False),
    )


def test_a_kind_that_is_named_alone_is_checked_also_where_nothing_of_it_was_measured() -> None:
    (named,) = parse_checks(["memory"])
    assert (named.text, named.is_default) == ("memory +10%", False)
    times = side(quantity("p50", "net", STEADY))
    assert verdict_of(results(times, times, "p50 +5%", "memory")) == "unknown"
    assert verdict_of(results(times, times, "p50 +5%", "default")) == "within"


@given(st.floats(0.5, 2.0), st.sampled_from(["1", "5", "20"]))
def test_a_mirrored_change_has_the_mirrored_verdict(factor: float, percent: str) -> None:
    # A rate that is divided is a time that is multiplied; 1/(1 + L) is another limit than 1 − L.
    limit = float(percent) / 100
    slower, lower = 1 + factor * limit, 1 - factor * limit
    for kind, check, change in (("p50", "+", slower), ("rate", "-", lower)):
        verdict = verdicts(change, f"{kind} {check}{percent}%", kind)  # type: ignore[arg-type]
        assert verdict != ("within" if factor > 1 else "worse")
