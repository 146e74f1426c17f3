"""Tables that only GPU runs fill: kernels and backends beside their limits, latencies."""

from __future__ import annotations

from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import UNKNOWN, digits, percent, quantity, seconds
from mansard.analytics.report.page_parts import Table
from mansard.analytics.results import Results
from mansard.analytics.roofs.latency import Latency
from mansard.analytics.roofs.standings import Standing

_UNITS = {"fma": "CUDA cores", "tensor": "tensor cores", "stream": "main memory"}


def backend_table(results: Results) -> Table:
    """Every kernel and backend side by side, with its share of the hardware's limit."""
    rows = [
        [shown(roof.label), *_standing_cells(standing)]
        for roof in results.roofs
        for standing in roof.standings
    ]
    return Table(
        caption="Kernels and backends beside the limit at the measured clock and SM count",
        columns=(
            *("Mode", "Unit", "Precision", "Kernel", "Backend", "Rate", "Of the best"),
            *("Limit", "Share", "SM clock", "Remark"),
        ),
        rows=rows,
        numeric=frozenset({5, 6, 7, 8, 9}),
    )


def latency_table(results: Results) -> Table:
    """What one dependent load takes from each level."""
    rows = [
        [shown(roof.label), latency.level, *_latency_cells(latency)]
        for roof in results.roofs
        for latency in roof.latencies
    ]
    return Table(
        caption="Latency of one load",
        columns=("Mode", "Level", "Latency", "SM cycles", "Trials", "Remark"),
        rows=rows,
        numeric=frozenset({2, 3, 4}),
    )


def clock_text(clock_hz: float | None) -> str:
    """A clock in MHz, four digits."""
    return UNKNOWN if clock_hz is None else f"{digits(clock_hz / 1e6)}\u00a0MHz"


def _standing_cells(standing: Standing) -> list[str]:
    ceiling = standing.ceiling
    return [
        _UNITS[ceiling.family],
        "" if ceiling.family == "stream" else shown(ceiling.subject),
        shown(ceiling.kernel or UNKNOWN),
        shown(ceiling.backend or UNKNOWN),
        quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high),
        UNKNOWN if standing.ratio is None else digits(standing.ratio, 3),
        quantity(standing.limit, ceiling.unit),
        percent_fine(standing.share),
        clock_text(standing.clock_hz),
        _remark(standing),
    ]


def percent_fine(share: float | None) -> str:
    """A share of a limit in percent, with one digit behind the point: 97 and 98 differ."""
    return UNKNOWN if share is None else f"{100 * share:.1f}\u00a0%"


def _remark(standing: Standing) -> str:
    ceiling = standing.ceiling
    if ceiling.value is None:
        return shown_long(ceiling.unknown["value"])
    remarks = [] if ceiling.stable else ["unstable"]
    if ceiling.n_disturbed:
        remarks.append(f"{ceiling.n_disturbed} disturbed left out")
    if standing.limit is None:
        remarks.append(shown_long(standing.unknown["limit"]))
    if standing.share is not None and standing.share > standing.most_share:
        most = percent(standing.most_share)
        remarks.append(f"above {most} of its limit: something is miscounted")
    return "; ".join(remarks)


def _latency_cells(latency: Latency) -> list[str]:
    remarks = [] if latency.value_s is not None else [shown_long(latency.unknown["value_s"])]
    if latency.value_s is not None and latency.n_disturbed:
        remarks.append(f"{latency.n_disturbed} disturbed left out")
    return [
        seconds(latency.value_s, latency.low_s, latency.high_s),
        UNKNOWN if latency.cycles is None else f"{latency.cycles:.0f}",
        str(len(latency.trial_ids)),
        "; ".join(remarks),
    ]
