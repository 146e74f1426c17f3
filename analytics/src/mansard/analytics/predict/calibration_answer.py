"""Factors and launch costs that explain timed groups best, and the times they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mansard.analytics.predict.calibration_solve import Array, least_absolute
from mansard.analytics.predict.calibration_table import TimedTable


@dataclass(frozen=True, eq=False)
class Answer:
    """NaN where no group determines it."""

    overall: float  # the factor of all kinds together
    factors: Array  # one for each kind of the table
    launches: Array  # one for each column of the table's launches


def solve(table: TimedTable, least: float) -> Answer:
    """The least sum of errors, each a share of its total, with no factor below ``least``.

    Groups of kinds that are too few take the overall factor, which is solved for first.
    """
    # What is not negative is what a factor has on top of the least.
    above = table.measured_s - least * table.roof_s
    rows = np.column_stack([table.roof_s, table.launches])
    overall = least + float(least_absolute(rows, above, table.total_s)[0])
    above = np.where(table.kind < 0, table.measured_s - overall * table.roof_s, above)
    kinds = (np.where(table.kind == at, table.roof_s, 0.0) for at in range(len(table.kinds)))
    rows = np.column_stack([*kinds, table.launches])
    found = np.where(rows.any(axis=0), least_absolute(rows, above, table.total_s), np.nan)
    n_kinds = len(table.kinds)
    return Answer(overall, least + found[:n_kinds], found[n_kinds:])


def times(table: TimedTable, answer: Answer) -> Array:
    """The modelled time of each group, s; NaN where its mode has no launch cost."""
    known = np.where(np.isnan(answer.factors), answer.overall, answer.factors)
    factors = np.append(known, answer.overall)[table.kind]  # -1 takes the last
    launches = np.where(table.launches > 0, table.launches * answer.launches, 0.0)
    return np.asarray(factors * table.roof_s + launches.sum(axis=1), dtype=np.float64)
