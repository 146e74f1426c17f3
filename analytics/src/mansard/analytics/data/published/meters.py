"""Several meters of one board or card: all of their powers are kept, and none is chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec.structs import replace

from mansard.analytics.data.published.cells import Cells
from mansard.core.records import PublishedRun
from mansard.core.text import listed

METERS_SAY = "its meters say"
_AGREEING = 0.05  # as an energy and power x time of one row


def meters_of(cells: Cells) -> dict[str, float]:
    """Watts by the column they stand in, as figures: names that end in ``_w``."""
    columns = cells.columns_of("power")
    if len(columns) < 2:
        return {}
    amounts = {_figure(column.name): cells.amount(column) for column in columns}
    return {name: value for name, value in amounts.items() if value is not None}


def _figure(column: str) -> str:
    words = [word for word in re.findall(r"[a-z0-9]+", column.casefold()) if word not in _UNITS]
    return "_".join(["meter", *words, "w"])


_UNITS = frozenset({"w", "mw", "watt", "watts", "milliwatts"})


def agree(powers_w: Iterable[float]) -> bool:
    """Whether several meters are as near as rounding brings them."""
    values = list(powers_w)
    return max(values) <= (1 + _AGREEING) * min(values)


def meters_differ(powers_w: Mapping[str, float]) -> str:
    """What is said of several meters of one run."""
    low, high = min(powers_w.values()), max(powers_w.values())
    said = [f"{name} {value:.4g} W" for name, value in powers_w.items()]
    return f"{METERS_SAY} {listed(said)}, which differ by {high / low - 1:.0%}; none is chosen"


def mark_meters(
    runs: Sequence[PublishedRun], meters: Sequence[str | None]
) -> tuple[PublishedRun, ...]:
    """``runs`` with a remark on the power where several ``meters`` of one setting disagree."""
    groups: dict[tuple[object, ...], dict[str, list[float]]] = {}
    for run, meter in zip(runs, meters, strict=True):
        if meter is not None and run.power_w is not None:
            groups.setdefault(_setting(run), {}).setdefault(meter, []).append(run.power_w)
    doubts = {
        setting: meters_differ(powers_w)
        for setting, each in groups.items()
        if len(powers_w := {meter: median(values) for meter, values in each.items()}) > 1
        and not agree(powers_w.values())
    }
    return tuple(
        _remarked(run, doubts[_setting(run)], meter) if _setting(run) in doubts else run
        for run, meter in zip(runs, meters, strict=True)
    )


def _remarked(run: PublishedRun, doubt: str, meter: str | None) -> PublishedRun:
    if meter is None or run.remark is not None:
        return run
    unknown = {name: why for name, why in run.unknown.items() if name != "remark"}
    return replace(run, remark=doubt, unknown=unknown)


def _setting(run: PublishedRun) -> tuple[object, ...]:
    return (run.mode.name, run.network, run.batch, run.precision, run.phase)
