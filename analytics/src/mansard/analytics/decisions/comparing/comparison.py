"""Compare two sides quantity by quantity: which differences are larger than scatter."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mansard.analytics.decisions.comparing.kinds import KINDS, Kind
from mansard.analytics.decisions.comparing.pairing import (
    Paired,
    QuantityPair,
    Test,
    pair_quantities,
    span_of,
)
from mansard.analytics.decisions.comparing.sides import Side
from mansard.analytics.decisions.comparing.significance import (
    LEVEL,
    THRESHOLD,
    holm,
    ratio_span,
    shift_test,
)
from mansard.core.errors import UsageError
from mansard.core.records import Record


class Change(Record, frozen=True, kw_only=True):
    """One quantity on both sides: second over first, with its 95 % interval.

    ``p``: of no difference above the comparison's threshold, by ``test``; ``p_corrected`` for all
    quantities that were tested. ``is_significant``: ``p_corrected`` is below 0.05. ``is_equal``:
    the interval of the ratio lies within the threshold. ``n_first`` repetitions are from
    ``runs_first`` runs.
    """

    kind: Kind
    quantity: str
    unit: str
    first: float
    first_low: float | None
    first_high: float | None
    second: float
    second_low: float | None
    second_high: float | None
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    test: Test | None
    p: float | None
    p_corrected: float | None
    is_significant: bool | None
    is_equal: bool | None
    n_first: int
    runs_first: int
    n_second: int
    runs_second: int

    @property
    def is_better(self) -> bool | None:
        """Whether the second value is the better one; None for a metric, which may mean either."""
        better = KINDS[self.kind].better
        return (self.ratio > 1) == (better == "higher") if better else None


class Comparison(Record, frozen=True, kw_only=True):
    """Two sides beside each other. ``differences``: what else is not the same, such as a version.

    ``threshold``: the share by which a quantity may differ without mattering. ``layers`` are
    corrected among themselves. ``unusable``: what was run and has no value to compare, and why.
    """

    first: str
    second: str
    threshold: float
    changes: tuple[Change, ...]
    layers: tuple[Change, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    unusable: tuple[str, ...]
    differences: tuple[str, ...]


def compare(
    first: Side, second: Side, threshold: float = THRESHOLD, paired: Paired | None = None
) -> Comparison:
    """Every quantity that both sides have, and the names of those that only one has.

    ``threshold``: the share that a quantity has to differ by; 0.01 is 1 %. ``paired``: the result
    of ``pair_quantities``, if it is there. Raises UsageError where the threshold is not between 0
    and 1.

    Quantities of different precisions, levels, kernels, batch sizes or engines are never compared.
    """
    if not 0 <= threshold < 1:
        raise UsageError(f"a threshold of {threshold:g} is not a share", fix="say 0.01 for 1 %")
    paired = pair_quantities(first, second) if paired is None else paired
    changes, layers = (
        _changes([p for p in paired.pairs if (p.first.kind == "layer") == is_layer], threshold)
        for is_layer in (False, True)
    )
    return Comparison(
        first=_titled(first, second),
        second=_titled(second, first),
        threshold=threshold,
        changes=changes,
        layers=layers,
        only_first=tuple(one.name for one in paired.only_first),
        only_second=tuple(one.name for one in paired.only_second),
        unusable=tuple(
            dict.fromkeys(
                f"{one.name}: {one.why}" for one in (*first.unusable, *second.unusable) if one.why
            )
        ),
        differences=_differences(first, second),
    )


def _titled(side: Side, other: Side) -> str:
    """The side's label with its source, and with its builds where these alone tell it apart."""
    is_alike = side.label == other.label and side.builds != other.builds
    builds = f", label {', '.join(side.builds)}" if is_alike and side.builds else ""
    return f"{side.label}{builds} ({side.source})"


def _changes(pairs: Iterable[QuantityPair], threshold: float) -> tuple[Change, ...]:
    """The changes of ``pairs``, their p corrected among themselves."""
    tested = [
        (pair, None if pair.difference is None else shift_test(pair.difference, threshold))
        for pair in pairs
    ]
    corrected = iter(holm([p for _, p in tested if p is not None]))
    return tuple(
        _change(pair, threshold, p, None if p is None else next(corrected)) for pair, p in tested
    )


def _change(
    pair: QuantityPair, threshold: float, p: float | None, p_corrected: float | None
) -> Change:
    ours, theirs, difference = pair.first, pair.second, pair.difference
    ratio, low, high = ratio_span(span_of(ours), span_of(theirs))
    if pair.test != "intervals":
        low = high = None
        if difference is not None:
            low, high = ratio * math.exp(-difference.half), ratio * math.exp(difference.half)
    ends: dict[str, float | None] = {
        "first_low": ours.low,
        "first_high": ours.high,
        "second_low": theirs.low,
        "second_high": theirs.high,
        "ratio_low": low,
        "ratio_high": high,
    }
    is_equal = None
    if low is not None and high is not None:
        is_equal = 1 / (1 + threshold) <= low and high <= 1 + threshold
    unknown = {key: "a side has no interval" for key, end in ends.items() if end is None}
    if is_equal is None:
        unknown["is_equal"] = "a side has no interval"
    if p is None:
        unknown |= dict.fromkeys(("p", "test", "p_corrected", "is_significant"), pair.why_not)
    return Change(
        kind=ours.kind,
        quantity=theirs.name,
        unit=ours.unit,
        first=ours.value,
        second=theirs.value,
        ratio=ratio,
        test=None if p is None else pair.test,
        p=p,
        p_corrected=p_corrected,
        is_significant=None if p_corrected is None else p_corrected < LEVEL,
        is_equal=is_equal,
        n_first=ours.n_repetitions,
        runs_first=len(ours.runs),
        n_second=theirs.n_repetitions,
        runs_second=len(theirs.runs),
        unknown=unknown,
        **ends,
    )


def _differences(first: Side, second: Side) -> tuple[str, ...]:
    """What else is not the same, in words; what one does not know is left out."""
    pairs: dict[str, tuple[str, str]] = {"source": (first.source, second.source)}
    pairs |= {
        name: (fact, second.facts[name])
        for name, fact in first.facts.items()
        if name in second.facts
    }
    lines = [f"{name}: {mine} and {its}" for name, (mine, its) in pairs.items() if mine != its]
    if first.machine == second.machine and first.device != second.device:
        lines.append(f"machine: two that are called {first.machine}")
    return tuple(lines)
