"""Checks of a comparison: is a change significant and larger than allowed?

With d = ln(second / first), its standard error s and Student's T (``significance``), a quantity
that may rise by L

    is worse     where P(T ≥ (d − ln(1 + L)) / s) < 2 %, corrected for all checks (Holm)
    is within    where P(T ≤ (d − ln(1 + L)) / s) < 5 %
    is unknown   otherwise, or where a side has no value.

All are shown to be within as soon as each is, so that needs no correction (R. L. Berger,
Technometrics 24, 1982). A quantity that may fall by L is mirrored, with ln(1 − L). One that may
neither rise nor fall has twice the smaller of both p, and is within where both tests say so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple, get_args

from msgspec.structs import replace

from mansard.analytics.decisions.comparing.kinds import KINDS, Kind
from mansard.analytics.decisions.comparing.pairing import Paired, QuantityPair
from mansard.analytics.decisions.comparing.sides import Side
from mansard.analytics.decisions.comparing.significance import (
    FEWEST_STRETCHES,
    LEVEL,
    WORSE_LEVEL,
    Centre,
    excess_test,
    holm,
    needed_repetitions,
)
from mansard.core.errors import UsageError
from mansard.core.records import Record, with_known

DEFAULT = "default"
_CHECK = re.compile(r"([a-z0-9-]+)(?:\s+([+±-]?)\s*([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%)?")
_NEEDS = ("needed", "needed_of", "more_first", "more_second")
Verdict = Literal["worse", "within", "unknown"]


class AllowedChange(NamedTuple):
    """What is allowed of one kind: ``low`` and ``high`` are logarithms of ratios."""

    text: str
    kind: Kind
    low: float | None
    high: float | None
    is_default: bool = False  # of ``default``, and not of a kind that was named


class CheckResult(Record, frozen=True, kw_only=True):
    """The result of one check for one quantity, or for a kind without a value.

    ``p_worse``: p of a change that keeps the limit, corrected for all checks. ``p_within``: p of
    one that exceeds it. ``needed``: repetitions or runs of each side that would settle the verdict;
    ``more_first`` and ``more_second``: how many of them each side lacks. ``disturbed_first``: runs
    of the first side that do not count, because they were disturbed.
    """

    check: str
    kind: Kind
    side: str  # the label of the second side
    quantity: str  # its name; empty where neither side has a value of the kind
    ratio: float | None
    ratio_limit_low: float | None  # the least ratio that is allowed
    ratio_limit_high: float | None  # and the largest
    p_worse: float | None
    p_within: float | None
    verdict: Verdict
    why: str  # why the verdict is unknown; else empty
    needed: int | None
    needed_of: Literal["repetitions", "runs"] | None
    more_first: int | None
    more_second: int | None
    disturbed_first: int = 0
    disturbed_second: int = 0


def parse_checks(texts: Sequence[str]) -> tuple[AllowedChange, ...]:
    """``p50 +5%``, ``rate -5%``, ``metric 2%`` (either way), ``memory`` or ``default``.

    Raises UsageError, also where a kind is checked twice by name.
    """
    checks: list[AllowedChange] = []
    for text in texts:
        if text.strip() == DEFAULT:
            checks += [_check(kind, "", None, is_default=True) for kind in KINDS if kind != "layer"]
            continue
        match = _CHECK.fullmatch(text.strip().lower())
        kind = next((one for one in KINDS if match is not None and one == match[1]), None)
        if match is None or kind is None:
            names = ", ".join(get_args(Kind))
            fix = f"write 'p50 +5%' or 'rate -3%'; there are {names}, and default"
            raise UsageError(f"--check {text!r} is not a check", fix=fix)
        checks.append(_check(kind, match[2] or "", match[3]))
    named = [check.kind for check in checks if not check.is_default]
    twice = next((kind for kind in named if named.count(kind) > 1), None)
    if twice is not None:
        raise UsageError(f"--check gives {twice} two limits", fix="give it one")
    # A limit that is given by name counts instead of the default one.
    return tuple(
        dict.fromkeys(check for check in checks if not check.is_default or check.kind not in named)
    )


def _check(
    kind: Kind, sign: str, percent: str | None, *, is_default: bool = False
) -> AllowedChange:
    traits = KINDS[kind]
    signs = {"lower": ("", "+"), "higher": ("", "-"), "": ("", "±", "+", "-")}[traits.better]
    if sign not in signs:
        right = "+" if traits.better == "lower" else "-"
        raise UsageError(
            f"{kind} is better when it is {traits.better}, so its limit is not {sign}{percent} %",
            fix=f"write '{kind} {right}{percent}%'",
        )
    allowed = traits.allowed if percent is None else float(percent) / 100
    rises = traits.better == "lower" or (not traits.better and sign != "-")
    falls = traits.better == "higher" or (not traits.better and sign != "+")
    if falls and allowed >= 1:
        raise UsageError(f"{kind} cannot fall by {100 * allowed:g} %", fix="allow less than 100 %")
    shown = {(True, True): "±", (True, False): "+", (False, True): "-"}[rises, falls]
    return AllowedChange(
        f"{kind} {shown}{100 * allowed:g}%",
        kind,
        math.log1p(-allowed) if falls else None,
        math.log1p(allowed) if rises else None,
        is_default,
    )


class CheckedPair(NamedTuple):
    """Two sides that are checked, and their quantities."""

    first: Side
    second: Side
    paired: Paired


def run_checks(
    checks: Sequence[AllowedChange],
    pairs: Sequence[CheckedPair],
    only_first: Sequence[str] = (),
    only_second: Sequence[str] = (),
) -> tuple[CheckResult, ...]:
    """The results of all checks; none where there are no checks.

    ``only_first`` and ``only_second``: labels of sides without a partner.
    """
    if not checks:
        return ()
    candidates = [one for pair in pairs for one in _candidates(checks, pair)]
    tails = [
        min(1.0, len(p) * min(p))
        for one in candidates
        if one.pair.difference is not None
        for p in [_tails(one.check, one.pair.difference)]
    ]
    corrected = iter(holm(tails))
    results = [
        _result(one, None if one.pair.difference is None else next(corrected), len(tails))
        for one in candidates
        if not _may_be_left_out(one)
    ]
    results += [one for pair in pairs for one in _one_sided(checks, pair)]
    seen = {result.kind for result in results}
    for check in checks:
        if check.kind not in seen and not check.is_default:
            results.append(_unknown(check, "", "", "neither side has a value of it"))
    for labels, which in ((only_first, "first"), (only_second, "second")):
        for label in labels:
            results.append(_unknown(checks[0], label, "", f"only the {which} has {label}"))
    if not results:
        results.append(_unknown(checks[0], "", "", "nothing that is checked was measured"))
    return tuple(results)


class _Checked(NamedTuple):
    check: AllowedChange
    side: str
    pair: QuantityPair


def _candidates(checks: Sequence[AllowedChange], pair: CheckedPair) -> Iterator[_Checked]:
    for check in checks:
        for quantities in pair.paired.pairs:
            if quantities.first.kind == check.kind:
                yield _Checked(check, pair.second.label, quantities)


def _may_be_left_out(one: _Checked) -> bool:
    """Whether the limit is a default one that cannot be tested and is not exceeded."""
    if not one.check.is_default or one.pair.difference is not None:
        return False
    log = math.log(one.pair.second.value / one.pair.first.value)
    is_low = one.check.low is not None and log < one.check.low
    is_high = one.check.high is not None and log > one.check.high
    return not (is_low or is_high)


def _tails(check: AllowedChange, difference: Centre) -> list[float]:
    """For each limit the p that it is kept."""
    mirrored = Centre(-difference.log, difference.deviation, difference.freedom)
    high = [] if check.high is None else [excess_test(difference, check.high)]
    return high + ([] if check.low is None else [excess_test(mirrored, -check.low)])


def _result(one: _Checked, p_worse: float | None, n_tests: int) -> CheckResult:
    pair, name = one.pair, one.pair.second.name
    if pair.difference is None or p_worse is None:
        ratio = pair.second.value / pair.first.value
        result = _unknown(one.check, one.side, name, pair.why_not, ratio)
        return _with_needs(result, pair, _least_needed(pair))
    p_within = max(1 - p for p in _tails(one.check, pair.difference))
    verdict: Verdict = (
        "worse" if p_worse < WORSE_LEVEL else "within" if p_within < LEVEL else "unknown"
    )
    is_open = verdict == "unknown"
    result = _unknown(
        one.check,
        one.side,
        name,
        "too near the limit for its scatter" if is_open else "",
        math.exp(pair.difference.log),
    )
    needed = _settling(one.check, pair, pair.difference, n_tests) if is_open else None
    result = _with_needs(result, pair, needed)
    return with_known(result, p_worse=p_worse, p_within=p_within, verdict=verdict)


Needed = tuple[int, Literal["repetitions", "runs"]]


def _least_needed(pair: QuantityPair) -> Needed | None:
    """The least that a test of an untested pair needs."""
    if pair.test == "intervals":
        return None
    few = min(pair.first.n_repetitions, pair.second.n_repetitions)
    return (2, "runs") if few == 1 else (FEWEST_STRETCHES, "repetitions")


def _settling(
    check: AllowedChange, pair: QuantityPair, difference: Centre, n_tests: int
) -> Needed | None:
    """What would show on which side of its nearest limit a difference is."""
    if pair.test == "intervals":
        return None
    limits = [limit for limit in (check.low, check.high) if limit is not None]
    nearest = min(limits, key=lambda limit: abs(difference.log - limit))
    n = pair.n_compared

    def freedom(count: int) -> float:
        return 2 * count - 2 if pair.test == "runs" else difference.freedom * count / n

    needed = needed_repetitions(difference, nearest, n, freedom, n_tests)
    return None if needed is None else (needed, "runs" if pair.test == "runs" else "repetitions")


def _with_needs(result: CheckResult, pair: QuantityPair, needed: Needed | None) -> CheckResult:
    """``result`` with what would settle it, and the disturbed runs of both sides."""
    sides = pair.first, pair.second
    result = replace(
        result, disturbed_first=sides[0].n_disturbed, disturbed_second=sides[1].n_disturbed
    )
    if needed is None:
        return result
    n, unit = needed
    counts = [len(side.runs) if unit == "runs" else side.n_repetitions for side in sides]
    more_first, more_second = (max(n - count, 0) for count in counts)
    return with_known(
        result, needed=n, needed_of=unit, more_first=more_first, more_second=more_second
    )


def _with_disturbed(result: CheckResult, n_first: int, n_second: int) -> CheckResult:
    """``result`` of a quantity without a value; each side with disturbed runs, ``n_first`` and
    ``n_second``, needs at least one more run."""
    if not n_first and not n_second:
        return result
    return with_known(
        result,
        needed=1,
        needed_of="runs",
        more_first=min(n_first, 1),
        more_second=min(n_second, 1),
        disturbed_first=n_first,
        disturbed_second=n_second,
    )


def _one_sided(checks: Sequence[AllowedChange], pair: CheckedPair) -> Iterator[CheckResult]:
    """What only one side has, and what is checked by name but has no value."""
    first, second, paired = pair
    for which, other, alone in (
        ("first", second, paired.only_first),
        ("second", first, paired.only_second),
    ):
        unusable_there = {(one.kind, one.name): one for one in other.unusable}
        for check, quantity in product(checks, alone):
            if quantity.kind == check.kind:
                there = unusable_there.get((quantity.kind, quantity.name))
                why = f"only the {which} side has it" + (f": {there.why}" if there else "")
                n = there.n_disturbed if there else 0
                by_side = (0, n) if which == "first" else (n, 0)
                yield _with_disturbed(_unknown(check, second.label, quantity.name, why), *by_side)
    measured = {one.name for side in (first, second) for one in side.quantities}
    unusable = {one.name: one for one in (*first.unusable, *second.unusable)}
    for check, one in product(checks, unusable.values()):
        if one.kind == check.kind and one.name not in measured and not check.is_default:
            n_first, n_second = (
                sum(it.n_disturbed for it in side.unusable if it.name == one.name)
                for side in (first, second)
            )
            result = _unknown(check, second.label, one.name, one.why)
            yield _with_disturbed(result, n_first, n_second)


def _unknown(
    check: AllowedChange,
    side: str,
    quantity: str,
    why: str,
    ratio: float | None = None,
) -> CheckResult:
    low = None if check.low is None else math.exp(check.low)
    high = None if check.high is None else math.exp(check.high)
    reasons = {
        "ratio": why if ratio is None else None,
        "ratio_limit_low": "it may be lower" if low is None else None,
        "ratio_limit_high": "it may be higher" if high is None else None,
        "p_worse": why or "not tested",
        "p_within": why or "not tested",
        **dict.fromkeys(_NEEDS, "repetitions do not settle it"),
    }
    return CheckResult(
        check=check.text,
        kind=check.kind,
        side=side,
        quantity=quantity,
        ratio=ratio,
        ratio_limit_low=low,
        ratio_limit_high=high,
        p_worse=None,
        p_within=None,
        verdict="unknown",
        why=why,
        needed=None,
        needed_of=None,
        more_first=None,
        more_second=None,
        unknown={name: reason for name, reason in reasons.items() if reason is not None},
    )


def verdict_of(results: Sequence[CheckResult]) -> Verdict | Literal["unchecked"]:
    """Worse if any result is, else unknown if any is, else within."""
    verdicts = {result.verdict for result in results}
    order: tuple[Verdict, ...] = ("worse", "unknown", "within")
    return next((one for one in order if one in verdicts), "unchecked")
