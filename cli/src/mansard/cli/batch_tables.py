"""Curves over batch sizes as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mansard.cli.console import note, print_json, print_table

_COLUMNS = (
    "batch", "time", "items/s", "power", "energy per item", "FLOP/byte", "bound by", "remark",
)  # fmt: skip


def print_batches(curves: Sequence[Sequence[Mapping[str, Any]]], *, as_json: bool) -> None:
    """Curves of ``decide.batches.curves_of``, as tables or as one JSON document of rows."""
    if as_json:
        print_json({"batches": [row for curve in curves for row in curve]})
        return
    for curve in curves:
        first = curve[0]
        title = f"{first['network']} in {first['precision']} on {first['device']}, {first['mode']}"
        print_table(
            f"{title} ({first['source']})",
            _COLUMNS,
            [_cells(row, is_alone=len(curve) == 1) for row in curve],
        )
    for line in dict.fromkeys(row["notes"] for curve in curves for row in curve if row["notes"]):
        note(f"note: {line}")


def _cells(row: Mapping[str, Any], *, is_alone: bool) -> tuple[str, ...]:
    from mansard.analytics.data.quantities import digits, seconds
    from mansard.analytics.decide.wording import amount

    def known(name: str) -> str:
        return "unknown" if row[name] is None else digits(row[name], 3)

    remarks = ["most items per second"] if row["is_most_items"] and not is_alone else []
    remarks += ["least energy"] if row["is_least_energy"] and not is_alone else []
    if row["latency_s"] is None:
        remarks += [row["reason"]] if row["reason"] else []
    elif row["is_extrapolated"]:
        remarks.append("outside the measured clocks")
    cells = (
        str(row["batch"]),
        seconds(row["latency_s"], row["latency_low_s"], row["latency_high_s"]),
        known("items_per_s"),
        "unknown" if row["power_w"] is None else amount("power", row["power_w"]),
        "unknown" if row["energy_j"] is None else amount("energy", row["energy_j"]),
        known("intensity_flop_per_byte"),
        row["time_bound"] or "unknown",
        "; ".join(remarks),
    )
    return tuple(cell.replace("\u00a0", " ") for cell in cells)
