"""What the charts of Pagoda's page draw: one row for each mark, computed beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

MILLI, GIGA = 1e-3, 1e9


def comparison(points: pl.DataFrame) -> pl.DataFrame:
    """Measured and estimated time (ms) and power (W) of each point; log axes: all above 0."""
    kept = points.filter((pl.col("estimate_s") > 0) & (pl.col("measured_s") > 0))
    return kept.select(
        "network",
        "batch",
        measured_ms=(pl.col("measured_s") / MILLI).round_sig_figs(4),
        estimate_ms=(pl.col("estimate_s") / MILLI).round_sig_figs(4),
        roof_ms=(pl.col("least_tf32_s") / MILLI).round_sig_figs(4),
        measured_w=pl.col("measured_w").round_sig_figs(4),
        estimate_w=pl.col("estimate_w").round_sig_figs(4),
        doubt=pl.col("remark").fill_null(""),
    )


def diagonal(frame: pl.DataFrame, one: str, other: str, within: float) -> pl.DataFrame:
    """Equality from the least to the most of two columns, and ``within`` to either side."""
    values = [*frame[one].to_list(), *frame[other].to_list()]
    ends = (min(values) / 1.3, max(values) * 1.3)
    return pl.DataFrame(
        [{"x": end, "low": end * (1 - within), "high": end * (1 + within)} for end in ends]
    )


def roof_marks(points: pl.DataFrame) -> pl.DataFrame:
    """Performance over intensity of each measured point, by Pagoda's count and by ours fused.

    GFLOP/s is the count's own work over the measured time.
    """
    counts: Sequence[tuple[str, str, str]] = (
        ("Pagoda's count", "their_flop", "their_bytes"),
        ("our count, fused", "our_flop", "our_fused_bytes"),
    )
    return pl.concat(
        [
            points.select(
                "network",
                "batch",
                count=pl.lit(name),
                intensity=(pl.col(flop) / pl.col(moved)).round_sig_figs(4),
                rate=(pl.col(flop) / pl.col("measured_s") / GIGA).round_sig_figs(4),
            )
            for name, flop, moved in counts
        ]
    )


def roof_lines(
    peaks: Mapping[str, float], bandwidth_bytes_per_s: float, low: float, high: float
) -> pl.DataFrame:
    """The roof of each precision from intensity ``low`` to ``high``: three vertices, GFLOP/s."""
    rows = []
    for name, peak_flop_per_s in peaks.items():
        ridge = peak_flop_per_s / bandwidth_bytes_per_s
        for x in (low, ridge, high):
            rate = min(peak_flop_per_s, x * bandwidth_bytes_per_s) / GIGA
            rows.append({"roof": name, "x": float(f"{x:.4g}"), "y": float(f"{rate:.4g}")})
    return pl.DataFrame(rows)
