"""The samples of each rail around a window of time, found without looking at all others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from mansard.core.errors import MeasurementError
from mansard.core.records import PowerSample

_MOST_RAILS = 64  # of all meters together; no board comes near


def around(
    samples: Sequence[PowerSample], start_s: float, end_s: float
) -> dict[str, list[PowerSample]]:
    """Per rail the samples inside the window, one at or before it, one at or after it.

    ``samples`` stand in the order of time, as a sampler keeps them; the window is found by
    bisection. Rails come in their first order. Raises MeasurementError if the samples of a
    rail do not reach from ``start_s`` to ``end_s``, or the window is empty.
    """
    if not end_s > start_s:
        raise MeasurementError(f"the energy window from {start_s} s to {end_s} s is empty")
    n = len(samples)  # of a list that another thread may be adding to
    first = bisect_right(samples, start_s, hi=n, key=_time_s)
    last = bisect_left(samples, end_s, lo=first, hi=n, key=_time_s)
    inside = samples[first:last]
    rails = _first_round(samples[:_MOST_RAILS])
    rails.update(dict.fromkeys(sample.rail for sample in inside))
    before = _nearest((samples[i] for i in range(first - 1, -1, -1)), rails)
    after = _nearest((samples[i] for i in range(last, n)), rails)
    series: dict[str, list[PowerSample]] = {rail: [] for rail in rails}
    for sample in inside:
        series[sample.rail].append(sample)
    for rail, found in series.items():
        if rail not in before or rail not in after:
            raise _uncovered(samples, rail, start_s, end_s)
        found.insert(0, before[rail])
        found.append(after[rail])
        if any(b.monotonic_s < a.monotonic_s for a, b in pairwise(found)):
            raise MeasurementError("the samples are not in the order of time", where=f"rail {rail}")
    return series


def _time_s(sample: PowerSample) -> float:
    return sample.monotonic_s


def _first_round(samples: Sequence[PowerSample]) -> dict[str, None]:
    """The rails of the first reading: those before one is there again."""
    rails: dict[str, None] = {}
    for sample in samples:
        if sample.rail in rails:
            break
        rails[sample.rail] = None
    return rails


def _nearest(samples: Iterable[PowerSample], rails: Collection[str]) -> dict[str, PowerSample]:
    """The first sample of each rail, until all of them are found."""
    found: dict[str, PowerSample] = {}
    for sample in samples:
        if sample.rail in rails:
            found.setdefault(sample.rail, sample)
        if len(found) == len(rails):
            break
    return found


def _uncovered(
    samples: Sequence[PowerSample], rail: str, start_s: float, end_s: float
) -> MeasurementError:
    times_s = [sample.monotonic_s for sample in samples if sample.rail == rail]
    reach = f"from {times_s[0]:.3f} s to {times_s[-1]:.3f} s " if times_s else ""
    return MeasurementError(
        f"the readings {reach}do not cover the window from {start_s:.3f} s to {end_s:.3f} s",
        where=f"rail {rail}",
        fix="start the sampler before the window and read once more after it",
    )
