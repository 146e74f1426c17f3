"""Hierarchical inference as it ran with a server: tables and a sentence, for report and command."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from mansard.analytics.data.accuracies import share_text
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import (
    NBSP,
    UNKNOWN,
    capacity,
    counted,
    digits,
    joules,
    seconds,
)
from mansard.analytics.decisions.offload.measured import measured_offload
from mansard.analytics.decisions.offload.records import Amount, LatencySpread, MeasuredOffload
from mansard.core.records import OffloadRun
from mansard.core.table import Table

if TYPE_CHECKING:  # a run's tables are the core's; frames need the extra
    from mansard.analytics.data.dataset import Dataset

_NONE = "–"
_Spreads = Sequence[tuple[str, LatencySpread | None]]


class RanOffload(msgspec.Struct, frozen=True):
    """What the page shows of one run with a server."""

    sentence: str
    sources: Sequence[str]
    tables: Sequence[Table]
    notes: Sequence[str]


def ran_offloads(dataset: Dataset) -> list[RanOffload]:
    """One for each run of hierarchical inference with a server, in the order of their starts."""
    rows: dict[str, list[OffloadRun]] = {}
    for row in dataset.offloads:
        rows.setdefault(row.run_id, []).append(row)
    manifests = [one for one in dataset.workload_manifests if one.run_id in rows]
    manifests.sort(key=lambda one: (one.started_utc, one.run_id))
    ran = []
    for manifest in manifests:
        blocks = rows[manifest.run_id]
        measured = measured_offload(manifest, blocks)
        missing = counted(measured.n_missing, "sample")
        notes = [f"disturbed: {display_text(why)}" for why in measured.disturbances]
        notes += [f"{missing} not measured yet"] if measured.n_missing else []
        sources = [*dict.fromkeys(row.source for row in blocks), "modelled"]
        ran.append(RanOffload(offload_words(measured), sources, offload_tables(measured), notes))
    return ran


def offload_tables(measured: MeasuredOffload) -> list[Table]:
    """What each way reached, latencies, the parts of a sample, and how long a decision takes."""
    tables = [_way_table(measured), _latency_table(measured)]
    columns = ("part", "of", "mean")
    tables.append(Table("Means of the parts", columns, _parts(measured), frozenset({2})))
    return [*tables, _decision_table(measured)] if measured.decisions else tables


def _way_table(measured: MeasuredOffload) -> Table:
    title = (
        f"{display_name(measured.model)} here, {display_name(measured.served)} at "
        f"{display_text(measured.address)}, {counted(measured.n_samples, 'sample')} of "
        f"{display_name(measured.dataset)}, {display_name(measured.mode)}"
    )
    costs = measured.costs
    ways = (
        ("all here", measured.local_accuracy, f"0{NBSP}%", measured.local, costs.local_j),
        (
            *("all on the server", measured.remote_accuracy, f"100{NBSP}%"),
            *(measured.remote, costs.offload_j),
        ),
        (
            *("by the rule", measured.accuracy, share_text(measured.share)),
            *(measured.all, measured.energy),
        ),
    )
    rows = [
        (name, share_text(accuracy), offloaded, _mean(spread), _energy(energy))
        for name, accuracy, offloaded, spread, energy in ways
    ]
    predicted = (_time(measured.predicted_latency), _energy(measured.predicted_energy))
    rows.append(("by the rule, predicted", _NONE, _NONE, *predicted))
    columns = ("way", "accuracy, 95 %", "offloaded", "mean latency", "energy")
    return Table(title, columns, rows, frozenset({1, 2, 3, 4}))


def _latency_table(measured: MeasuredOffload) -> Table:
    spreads: _Spreads = (
        ("all here", measured.local),
        ("all on the server", measured.remote),
        ("by the rule", measured.all),
        ("– kept", measured.kept),
        ("– offloaded", measured.offloaded),
    )
    rows = [
        (
            name,
            f"{spread.n:,}",
            *map(seconds, (spread.median_s, spread.p90_s, spread.p99_s, spread.most_s)),
        )
        for name, spread in spreads
        if spread is not None
    ]
    columns = ("latency", "samples", "median", "90 %", "99 %", "most")
    return Table("Latencies of samples", columns, rows, frozenset({1, 2, 3, 4, 5}))


def _decision_table(measured: MeasuredOffload) -> Table:
    rows = [
        (
            f"{one.n_classes:,}",
            *map(seconds, (median(one.seconds_s), min(one.seconds_s), max(one.seconds_s))),
        )
        for one in measured.decisions
    ]
    title = "One decision here: the two largest outputs, and the rule"
    return Table(title, ("classes", "median", "least", "most"), rows, frozenset({1, 2, 3}))


def offload_words(measured: MeasuredOffload) -> str:
    """What was measured beside what its parts predict, in one sentence."""
    if measured.all is None or measured.predicted_latency is None:
        return "No block of samples was measured in all three ways yet."
    latency = (
        f"The rule takes {seconds(measured.all.mean_s)} a sample, "
        f"{_error(measured.latency_error)} the {seconds(measured.predicted_latency.value)} that "
        "its parts predict"
    )
    if measured.energy is None:
        return f"{latency}; its energy is unknown: {measured.unknown['energy']}."
    if measured.predicted_energy is None:
        return f"{latency}, and {joules(measured.energy.value)}."
    return (
        f"{latency}, and {joules(measured.energy.value)}, {_error(measured.energy_error)} the "
        f"{joules(measured.predicted_energy.value)} predicted."
    )


def _error(error: float | None) -> str:
    if error is None:
        return "beside"
    return f"{digits(abs(100 * error), 2)}{NBSP}% {'above' if error >= 0 else 'below'}"


def _mean(spread: LatencySpread | None) -> str:
    return UNKNOWN if spread is None else seconds(spread.mean_s)


def _parts(measured: MeasuredOffload) -> list[Sequence[str]]:
    costs = measured.costs
    sent, received = measured.sent_bytes, measured.received_bytes
    return [
        ("small network", "each sample", _value(costs.local_s)),
        ("decision", "each sample", _value(costs.decision_s)),
        ("round trip", "offloaded samples", seconds(measured.round_trip_s)),
        ("– server, by its own clock", "offloaded samples", seconds(measured.server_s)),
        ("– – larger network", "offloaded samples", seconds(measured.inference_s)),
        ("– the rest: network and HTTP", "offloaded samples", seconds(measured.network_s)),
        ("body sent", "offloaded samples", UNKNOWN if sent is None else capacity(sent)),
        ("body received", "offloaded samples", UNKNOWN if received is None else capacity(received)),
    ]


def _value(amount: Amount | None) -> str:
    return UNKNOWN if amount is None else seconds(amount.value)


def _time(amount: Amount | None) -> str:
    if amount is None:
        return UNKNOWN
    return seconds(amount.value, amount.low, amount.high, amount.interval, advise=False)


def _energy(amount: Amount | None) -> str:
    if amount is None:
        return UNKNOWN
    return joules(amount.value, amount.low, amount.high, amount.interval, advise=False)
