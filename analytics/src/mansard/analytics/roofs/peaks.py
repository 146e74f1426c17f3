"""The compute ceilings of a run: one for each precision, on CUDA cores and on tensor cores.

Of several kernels and backends the best is the roof; all of them are kept as contenders.
Trials with constant operands are left out: they show what values cost, and in ceilings of
power-limited modes they would stand above what real data reach.
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.roofs.ceilings import Ceiling, CeilingFamily, best_of, ceiling_of, missing
from mansard.analytics.roofs.rates import TrialRate

FMA_LEAST = 64  # from here on the loads and stores around the chain cost nothing visible
TOLERANCE = 0.03  # the flatness asked of the kernel
_FAMILIES: tuple[CeilingFamily, ...] = ("fma", "tensor")


def find_contenders(rates: Sequence[TrialRate]) -> tuple[Ceiling, ...]:
    """A compute ceiling for each family, precision, kernel and backend that was run.

    In the order fma before tensor, narrow precisions' names first.
    """
    chosen = [rate for rate in rates if rate.operands == "chaotic"]
    found = []
    for family in _FAMILIES:
        kinds = {(r.precision, r.backend, r.kernel) for r in chosen if r.family == family}
        for precision, backend, kernel in sorted(kinds, key=lambda kind: (len(kind[0]), kind)):
            trials = [
                rate
                for rate in chosen
                if (rate.precision, rate.backend, rate.kernel) == (precision, backend, kernel)
                and rate.family == family
            ]
            found.append(_contender(family, trials))
    return tuple(found)


def find_peaks(contenders: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """The best contender of each family and precision, in their order."""
    kinds = dict.fromkeys((c.family, c.subject) for c in contenders)
    return tuple(
        best_of([c for c in contenders if (c.family, c.subject) == kind]) for kind in kinds
    )


def _contender(family: CeilingFamily, trials: Sequence[TrialRate]) -> Ceiling:
    precision, kernel = trials[0].precision, trials[0].kernel
    # A matrix product has no chain: all of it counts.
    long = [r for r in trials if r.fma_per_element is None or r.fma_per_element >= FMA_LEAST]
    if not long:
        reason = f"no {precision} chain of at least {FMA_LEAST} FMA per element gave a rate"
        return missing(precision, family, kernel, "FLOP/s", reason)
    return ceiling_of(precision, family, "FLOP/s", long, TOLERANCE)
