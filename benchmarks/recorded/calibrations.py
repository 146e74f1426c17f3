"""Calibration by totals against baselines, each judged on networks that it has not seen.

    python -m recorded.calibrations [FOLDER]      # in benchmarks/

Of each recorded table k networks are taken as measured, by random choices of a fixed seed, and all
others are predicted. Beside Mansard: one factor; a + b·T and a + b·work + c·traffic by non-negative
least squares of relative errors; the time of the network with the nearest time at the roof.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA
from mansard.analytics.models.energy.least_squares import solve_active_set
from mansard.analytics.models.predict.totals_calibration import apply_totals, calibrate_totals
from recorded.network_totals import NetworkTable, read_tables

Array = NDArray[np.float64]
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10)
MANSARD, SEED, N_DRAWS = "Mansard", 22_112_026, 10
_KEY = ["network", "batch", "precision"]


@dataclass(frozen=True, eq=False)
class NetworkRow:
    """Errors of one model after ``k`` measured networks: ln predicted over recorded.

    ``held``: whether the 95 % interval did; None for models without one.
    """

    recording: str
    k: int
    model: str
    errors: Array
    held: NDArray[np.bool_] | None


def network_rows(data: Path, n_draws: int = N_DRAWS) -> list[NetworkRow]:
    """All errors, one row for each recording, k and model; ``data``: the recorded data."""
    found: dict[tuple[str, int, str], list[NetworkRow]] = {}
    for table in read_tables(data):
        # Tables of one network in many sizes are 45: a draw of each is enough.
        for _, seen in choices(table, 1 if "image sizes" in table.name else n_draws):
            for row in judge(table, seen):
                found.setdefault((row.recording, row.k, row.model), []).append(row)
    return [joined(rows, rows[0].recording) for rows in found.values()]


def joined(rows: Sequence[NetworkRow], recording: str) -> NetworkRow:
    """One of several of the same model and k, called ``recording``."""
    held = [row.held for row in rows if row.held is not None]
    return NetworkRow(
        recording,
        rows[0].k,
        rows[0].model,
        np.concatenate([row.errors for row in rows]),
        np.concatenate(held) if held else None,
    )


def choices(table: NetworkTable, n_draws: int) -> Iterator[tuple[int, list[str]]]:
    """``n_draws`` random orders of the networks: each k, and the first k of them."""
    names = sorted(table.observations["network"].unique().to_list())
    rng = np.random.default_rng([SEED, *f"{table.name} {table.label}".encode()])
    for _ in range(n_draws):
        order = rng.permutation(len(names))
        for k in COUNTS:
            if k + 2 <= len(names):
                yield k, [names[at] for at in order[:k]]


def judge(table: NetworkTable, seen: Sequence[str]) -> Iterator[NetworkRow]:
    """What each model is off on the networks of ``table`` that are not ``seen``."""
    is_seen = pl.col("network").is_in(list(seen))
    known = table.observations.filter(is_seen)
    found = calibrate_totals(table.predictions, known)
    rows = apply_totals(table.predictions, found, pl.DataFrame(schema=COEFFICIENT_SCHEMA))
    times = table.observations.select(*_KEY, recorded_s="latency_s")
    rows = rows.join(times, on=_KEY, maintain_order="left")
    other = rows.filter(~is_seen)
    # In the order of the table: networks at equal distance are told apart by it.
    own = table.predictions.join(times, on=_KEY, maintain_order="left").filter(is_seen)
    recorded_s = other["recorded_s"].to_numpy()
    held = other.select(
        pl.col("recorded_s").is_between("latency_low_s", "latency_high_s")
    ).to_series()
    roofed = other.select(_KEY).join(table.predictions, on=_KEY, maintain_order="left")
    shares, own_shares = _shares(roofed), _shares(own)
    baselines = _baselines(own_shares, own["recorded_s"].to_numpy(), shares)
    mine = np.log(other["latency_s"].to_numpy() / recorded_s)
    yield NetworkRow(table.name, len(seen), MANSARD, mine, held.to_numpy())
    for name, value in baselines.items():
        yield NetworkRow(table.name, len(seen), name, np.log(value / recorded_s), None)


def _shares(rows: pl.DataFrame) -> Array:
    return rows.select("compute_s", "memory_s").to_numpy()


def _baselines(seen: Array, measured_s: Array, wanted: Array) -> dict[str, Array]:
    """By name, the times of ``wanted`` (networks × compute_s and memory_s)."""
    roof_s, wanted_s = seen.sum(axis=1), wanted.sum(axis=1)
    away = np.abs(np.log(roof_s)[None] - np.log(wanted_s)[:, None])
    return {
        "one factor": np.median(measured_s / roof_s) * wanted_s,
        "a + b·T": _line(roof_s[:, None], measured_s, wanted_s[:, None]),
        "a + b·work + c·traffic": _line(seen, measured_s, wanted),
        "nearest network": measured_s[away.argmin(axis=1)],
    }


def _line(seen: Array, measured_s: Array, wanted: Array) -> Array:
    rows = np.column_stack([np.ones(len(seen)), seen]) / measured_s[:, None]
    found = solve_active_set(rows, np.ones(len(seen)))
    return np.asarray(np.column_stack([np.ones(len(wanted)), wanted]) @ found, dtype=np.float64)


def shown(value: float) -> str:
    """Three figures, without an exponent."""
    return f"{float(f'{value:.3g}'):,.10g}"


def cells(row: NetworkRow) -> str:
    """Median, nine of ten and worst error in percent; the share inside the interval, the cases."""
    sizes = 100 * np.abs(np.expm1(row.errors))
    errors = " | ".join(map(shown, (np.median(sizes), np.quantile(sizes, 0.9), sizes.max())))
    held = "– | –" if row.held is None else f"{100 * row.held.mean():.0f} % | {row.held.size}"
    return f"{errors} | {held}"


def print_networks(data: Path, n_draws: int = N_DRAWS, is_whole: bool = True) -> None:
    """A Markdown table for each recording, and one of all of them; else of 1, 4 and the most."""
    rows = network_rows(data, n_draws)
    models = list(dict.fromkeys(row.model for row in rows))
    every = [
        joined([row for row in rows if (row.k, row.model) == (k, model)], "all recordings")
        for k in COUNTS
        for model in models
        if any(row.k == k for row in rows)
    ]
    for name in dict.fromkeys(row.recording for row in [*rows, *every]):
        print(f"\n**{name}**\n\n| k | rule | median | nine of ten | worst | inside | n |")
        print("|" + " --- |" * 7)
        of_name = [row for row in [*rows, *every] if row.recording == name]
        counts = sorted({row.k for row in of_name})
        for k in counts if is_whole else [k for k in counts if k in (1, 4, counts[-1])]:
            of = {row.model: row for row in of_name if row.k == k}
            for model in models:
                print(f"| {k} | {model} | {cells(of[model])} |")


if __name__ == "__main__":
    print_networks(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("../../shared/data"))
