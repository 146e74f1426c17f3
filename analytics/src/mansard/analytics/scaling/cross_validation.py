"""Which law fits best, and how wrong it is in a mode that it has not seen.

Both are found by leaving modes out. The error that is reported leaves a mode out before the law
is chosen, so that choosing cannot make it look better than it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.scaling.laws import Array, Columns, Fitted, Law, parts_of

N_FOLDS = 8  # from so many modes on they are left out in groups: the cost goes with the square
_GOOD_ENOUGH = 0.01  # as well as ceilings are known: no law of more terms is looked for then
_BETTER = 0.9  # a law of more terms must bring the error below this share of a simpler one's

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Choice:
    """The law that was chosen, fitted on all modes; ``errors``: ln(predicted / true), left out."""

    law: Law
    fitted: Fitted
    errors: Array

    def predict(self, columns: Columns) -> tuple[Array, Array]:
        """The value in each mode, and the most that it might be; NaN: unknown, or no such end."""
        return self.fitted.predict(parts_of(self.law, columns))


def choose(laws: Sequence[Law], columns: Columns, values: Array) -> Choice | None:
    """The best of ``laws``, which come simplest first; None where none can be fitted.

    ``values`` are positive, one for each mode of ``columns``; no column of a law has a NaN.
    """
    if not len(values):
        return None
    tried = [_Tried(law, parts_of(law, columns), values, {}) for law in laws]
    everything = np.ones(len(values), dtype=np.bool_)
    best = _best(tried, everything)
    fitted = None if best is None else best.fit(everything)
    if best is None or fitted is None:
        return None
    found = [np.empty(0)]
    for left_out in folds(everything):
        inner = _best(tried, ~left_out) if len(tried) > 1 else best
        if inner is not None:
            found.append(inner.errors(~left_out, left_out))
    errors = np.concatenate(found)
    return Choice(best.law, fitted, errors[np.isfinite(errors)])


def folds(kept: Mask) -> Iterator[Mask]:
    """Which of the ``kept`` modes are left out together; none where there is but one."""
    members = np.flatnonzero(kept)
    n_folds = min(len(members), N_FOLDS)
    for fold in range(n_folds if len(members) > 1 else 0):
        left_out = np.zeros_like(kept)
        left_out[members[fold::n_folds]] = True
        yield left_out


@dataclass(frozen=True, eq=False)
class _Tried:
    """A law over the values of all modes; what is left out twice is fitted once."""

    law: Law
    parts: Array
    values: Array
    fits: dict[bytes, Fitted | None]

    def fit(self, kept: Mask) -> Fitted | None:
        """From the ``kept`` modes; None where they do not determine it."""
        key = kept.tobytes()
        if key not in self.fits:
            can_fit = kept.sum() >= self.law.n_least
            self.fits[key] = self.law.fit(self.parts[kept], self.values[kept]) if can_fit else None
        return self.fits[key]

    def errors(self, kept: Mask, left_out: Mask) -> Array:
        """ln(predicted / true) of the modes left out; NaN where the law cannot be fitted."""
        fitted = self.fit(kept)
        if fitted is None:
            return np.full(int(left_out.sum()), np.nan)
        value, _ = fitted.predict(self.parts[left_out])
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Array = np.log(value / self.values[left_out])
        return found

    def score(self, kept: Mask) -> float:
        """Mean size of the errors of the ``kept`` modes, each left out; inf if one has none."""
        sizes = [np.abs(self.errors(kept & ~out, out)) for out in folds(kept)]
        mean = float(np.concatenate(sizes).mean()) if sizes else np.inf
        return mean if np.isfinite(mean) else np.inf


def _best(tried: Sequence[_Tried], kept: Mask) -> _Tried | None:
    """The law with the least error of leaving one of the ``kept`` modes out."""
    best, least, n_kept = None, np.inf, int(kept.sum())
    for each in tried:
        if each.fit(kept) is None:
            continue
        if best is None:
            best, least = each, each.score(kept)
        elif least > _GOOD_ENOUGH and n_kept > each.law.n_least:
            score = each.score(kept)
            if score < _BETTER * least:
                best, least = each, score
    return best
