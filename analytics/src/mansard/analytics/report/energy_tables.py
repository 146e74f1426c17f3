"""What a FLOP, a byte and a second cost in each mode, as the report prints it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import UNKNOWN, fixed, percent
from mansard.analytics.data.run_frames import idle_power_w
from mansard.analytics.energy.fit import Coefficient, EnergyFit
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.core.records import Manifest

PICO = 1e-12


def energy_table(results: Results) -> Table:
    """The coefficients of each metered mode with their intervals, or why there is none."""
    labels = results.labels()
    rows = [
        [shown(labels[run_id]), *cells]
        for run_id, found in results.energies.items()
        for cells in [*_rows(found), *_true_idle(found, results.dataset.manifest(run_id))]
    ]
    return Table(
        caption="Energy of work, traffic and time, with 95 % intervals",
        columns=("Mode", "What", "Energy", "Remark"),
        rows=rows,
        numeric=frozenset({2}),
    )


def energy_facts(results: Results) -> list[str]:
    """How well each fit describes its points, and what it lacks."""
    labels = results.labels()
    return [
        f"{shown(labels[run_id])}: {_quality(found)}" for run_id, found in results.energies.items()
    ]


def _rows(found: EnergyFit) -> Iterator[list[str]]:
    for name, coefficient in found.flop_j.items():
        yield [f"work in {shown(name)}", *_cells(coefficient, "pJ/FLOP", PICO)]
    for name, coefficient in found.byte_j.items():
        yield [f"traffic from {shown(name)}", *_cells(coefficient, "pJ/byte", PICO)]
    yield ["constant power", *_cells(found.constant_w, "W", 1.0)]


def _true_idle(found: EnergyFit, manifest: Manifest) -> Iterator[list[str]]:
    """Beside a constant power with the clocks on: what the machine draws without a kernel."""
    idle_w = idle_power_w(manifest)
    if found.n_stalled and idle_w is not None:
        yield ["true idle", fixed(idle_w, "W"), "measured with nothing running; in no fit"]


def _cells(coefficient: Coefficient, unit: str, factor: float) -> tuple[str, str]:
    value, low, high = coefficient.value, coefficient.low, coefficient.high
    if value is None or low is None or high is None:
        return UNKNOWN, shown_long(coefficient.unknown["value"])
    return fixed(value / factor, unit, low / factor, high / factor), ""


def _quality(found: EnergyFit) -> str:
    idle = "with the clocks on and nothing done" if found.n_stalled else "idle"
    points = f"{found.n_points} points, {found.n_idle} of them {idle}"
    lacks = f"; {', '.join(found.missing)}" if found.missing else ""
    if not found.residuals:
        return f"{points}{lacks}."
    typical, largest = (float(q(np.abs(found.residuals))) for q in (np.median, np.max))
    misses = f"the model misses a point by {percent(typical)} (median), {percent(largest)} at most"
    return f"{points}; {misses}{lacks}."
