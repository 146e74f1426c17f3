"""What an offload run measured end to end, beside what its parts predict.

The parts are the blocks in which every sample stayed here, and those in which every sample went to
the server. With the share f of the samples below the threshold, ``costs`` predicts

    mean = local + decision + f · offload

as for any answer of hierarchical inference; the blocks in which the rule decided are what it is
compared with. Energies are those of whole blocks: the decision is in that of the local run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from mansard.analytics.data.accuracies import Share, wilson
from mansard.analytics.decisions.offload.costs import Z95, mean_costs, mode_costs
from mansard.analytics.decisions.offload.records import (
    Amount,
    CostSource,
    LatencySpread,
    MeasuredOffload,
    ModeCosts,
    Rule,
    make_amount,
)
from mansard.core.records import (
    OFFLOAD_WAYS,
    Manifest,
    OffloadRule,
    OffloadRun,
    OffloadWay,
)

_IN_LOCAL = "it is part of the energy of the local run"
_NONE_OFFLOADED, _NONE_KEPT = "no sample was offloaded", "every sample was offloaded"


def measured_offload(manifest: Manifest, rows: Sequence[OffloadRun]) -> MeasuredOffload:
    """The summary of one run with at least one row."""
    ways = _whole_blocks(rows)
    ruled, first = ways["hierarchical"], rows[0]
    n = sum(row.n_samples for row in ruled)
    offloaded = sum(len(row.offloaded) for row in ruled)
    mode = manifest.mode_read_back.name
    costs = _costs(mode, ways)
    predicted = _predicted(costs, ways["local"], first.rule)
    energy, why_no_energy = _energy(ruled)
    spreads = _spreads(ways)
    values: dict[str, Any] = {
        "share": wilson(offloaded, n) if n else None,
        "local_accuracy": _accuracy(ways["local"]),
        "remote_accuracy": _accuracy(ways["remote"]),
        "accuracy": _accuracy(ruled),
        **spreads,
        **_parts(ruled),
        **predicted,
        "energy": energy,
    }
    spread = spreads["all"]
    mean_s = None if spread is None else spread.mean_s
    values["latency_error"] = _error(mean_s, predicted["predicted_latency"])
    mean_j = None if energy is None else energy.value
    values["energy_error"] = _error(mean_j, predicted["predicted_energy"])
    return MeasuredOffload(
        run_id=manifest.run_id,
        machine=manifest.machine.name,
        mode=mode,
        model=first.model,
        served=first.served.model,
        address=first.address,
        dataset=first.dataset,
        rule=first.rule,
        n_samples=n,
        n_missing=_n_missing(manifest, rows, n),
        n_reconnects=sum(row.n_reconnects for row in rows),
        costs=costs,
        decisions=next((row.decisions for row in rows if row.decisions), ()),
        disturbances=tuple(dict.fromkeys(why for row in rows for why in row.disturbances)),
        unknown=_reasons(values, n, why_no_energy, is_labelled=first.labels is not None),
        **values,
    )


def _error(measured: float | None, predicted: Amount | None) -> float | None:
    if measured is None or predicted is None or predicted.value <= 0:
        return None
    return measured / predicted.value - 1


def _whole_blocks(rows: Iterable[OffloadRun]) -> dict[OffloadWay, list[OffloadRun]]:
    """The rows of each way, of the blocks that were measured in all of them."""
    by_way: dict[OffloadWay, dict[int, OffloadRun]] = {way: {} for way in OFFLOAD_WAYS}
    for row in rows:
        by_way[row.way][row.first] = row
    whole = set.intersection(*(set(blocks) for blocks in by_way.values()))
    return {way: [blocks[first] for first in sorted(whole)] for way, blocks in by_way.items()}


def _n_missing(manifest: Manifest, rows: Sequence[OffloadRun], n_whole: int) -> int:
    """Samples that are not measured in all ways; blocks but the last are of one size."""
    if len(rows) == manifest.n_trials:
        return 0
    block = max(row.n_samples for row in rows)
    return max(1, manifest.n_trials // len(OFFLOAD_WAYS) * block - n_whole)


def _accuracy(rows: Sequence[OffloadRun]) -> Share | None:
    n_right = n = 0
    for row in rows:
        if row.labels is None:
            return None
        pairs = zip(row.predicted, row.labels, strict=True)
        n_right += sum(predicted == label for predicted, label in pairs)
        n += row.n_samples
    return wilson(n_right, n) if n else None


def _spreads(ways: dict[OffloadWay, list[OffloadRun]]) -> dict[str, LatencySpread | None]:
    """Latencies by the name of their field."""
    kept: list[float] = []
    offloaded: list[float] = []
    for row in ways["hierarchical"]:
        places = set(row.offloaded)
        for at, latency_s in enumerate(row.latency_s):
            (offloaded if at in places else kept).append(latency_s)
    return {
        "local": _spread([s for row in ways["local"] for s in row.latency_s]),
        "remote": _spread([s for row in ways["remote"] for s in row.latency_s]),
        "all": _spread([*kept, *offloaded]),
        "kept": _spread(kept),
        "offloaded": _spread(offloaded),
    }


def _spread(seconds_s: Sequence[float]) -> LatencySpread | None:
    if not seconds_s:
        return None
    median_s, p90_s, p99_s = np.quantile(seconds_s, (0.5, 0.9, 0.99), method="inverted_cdf")
    return LatencySpread(
        n=len(seconds_s),
        mean_s=float(np.mean(seconds_s)),
        median_s=float(median_s),
        p90_s=float(p90_s),
        p99_s=float(p99_s),
        most_s=max(seconds_s),
    )


def _parts(rows: Sequence[OffloadRun]) -> dict[str, float | None]:
    """Means over the offloaded samples."""

    def mean(numbers: Callable[[OffloadRun], Sequence[float]]) -> float | None:
        values = [value for row in rows for value in numbers(row)]
        return float(np.mean(values)) if values else None

    round_trip_s, server_s = mean(lambda row: row.round_trip_s), mean(lambda row: row.server_s)
    return {
        "round_trip_s": round_trip_s,
        "server_s": server_s,
        "inference_s": mean(lambda row: row.inference_s),
        "network_s": None if round_trip_s is None or server_s is None else round_trip_s - server_s,
        "sent_bytes": mean(lambda row: row.sent_bytes),
        "received_bytes": mean(lambda row: row.received_bytes),
    }


def _costs(mode: str, ways: dict[OffloadWay, list[OffloadRun]]) -> ModeCosts:
    """What a sample costs, from the blocks that kept, or offloaded, every sample."""
    local, remote = ways["local"], ways["remote"]
    source = _source([*local, *remote])
    amounts = {
        "local_s": _mean([s for row in local for s in row.local_s], source),
        "decision_s": _mean([s for row in local for s in row.decision_s], source),
        "offload_s": _mean([s for row in remote for s in row.latency_s], source),
    }
    reasons = dict.fromkeys(amounts, "no block was measured in all three ways")
    for name, rows in (("local_j", local), ("offload_j", remote)):
        amounts[name], reasons[name] = _energy(rows)
    reasons["decision_j"] = _IN_LOCAL
    known = {name: amount for name, amount in amounts.items() if amount is not None}
    return mode_costs(mode, known, reasons)


def _source(rows: Sequence[OffloadRun]) -> CostSource:
    return "simulated" if any(row.source == "simulated" for row in rows) else "measured"


def _mean(values: Sequence[float], source: CostSource) -> Amount | None:
    """The mean and its 95 % interval; of one value no interval."""
    if not values:
        return None
    mean = float(np.mean(values))
    if len(values) < 2:
        return make_amount(mean, source=source)
    half = Z95 * float(np.std(values, ddof=1)) / sqrt(len(values))
    return make_amount(mean, max(0.0, mean - half), mean + half, "spread", source)


def _energy(rows: Sequence[OffloadRun]) -> tuple[Amount | None, str]:
    """The energy of a sample over whole blocks, or why it is not known."""
    energies_j = []
    for row in rows:
        window = row.energy
        if window is None or window.total_j is None:
            why = row.unknown["energy"] if window is None else window.unknown["total_j"]
            return None, why
        energies_j.append(window.total_j / row.n_samples)
    if not energies_j:
        return None, "no block was measured in all three ways"
    return _mean(energies_j, _source(rows)), ""


def _predicted(
    costs: ModeCosts, local: Sequence[OffloadRun], rule: OffloadRule
) -> dict[str, Amount | None]:
    """Mean latency and energy of the rule, from the parts and the share that it would offload."""
    n = sum(row.n_samples for row in local)
    if not n:
        return {"predicted_latency": None, "predicted_energy": None}
    n_below = sum(int((_confidence(row, rule) < rule.threshold).sum()) for row in local)
    name: Rule = "threshold" if rule.logistic is None else "logistic"
    share = np.array([n_below / n])  # of the samples that were measured, so it is exact
    return {
        f"predicted_{quantity}": mean_costs(costs, quantity, name, share, share, share).at(0)
        for quantity in ("latency", "energy")
    }


def _confidence(row: OffloadRun, rule: OffloadRule) -> Any:
    p1, p2 = np.array(row.p1), np.array(row.p2)
    if rule.logistic is None:
        return p1
    intercept, w1, w2 = rule.logistic
    return (1 + np.tanh((intercept + w1 * p1 + w2 * p2) / 2)) / 2


def _reasons(
    values: dict[str, Any], n: int, why_no_energy: str, *, is_labelled: bool
) -> dict[str, str]:
    """Why each of ``values`` that is None is not known."""
    reasons = dict.fromkeys(values, "no block was measured in all three ways")
    if n:
        reasons |= dict.fromkeys(values, _NONE_OFFLOADED)
        reasons["kept"] = _NONE_KEPT
        energies = ("energy", "predicted_energy", "energy_error")
        reasons |= dict.fromkeys(energies, why_no_energy or "a block has no energy")
        if not is_labelled:
            names = ("local_accuracy", "remote_accuracy", "accuracy")
            reasons |= dict.fromkeys(names, "the data set has no labels")
        reasons["latency_error"] = "nothing is predicted"
    return {name: reasons[name] for name, value in values.items() if value is None}
