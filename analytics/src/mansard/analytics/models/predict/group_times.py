"""Groups of stages by the processor that ran them: times, costs of leaving, demand, energy.

Of a network that was cut into n groups (docs/use/layers.md), with P_k the time of the prefix that
ends with group k, M_k that of the network marked at the cut after it, and W_0, W_1 … those of the
whole network, which ran before and after each marked one:

    leave_k  M_k − (W_k + W_k+1) / 2
    time_k   on a DLA (P_k − leave_k) − (P_k−1 − leave_k−1), with P_−1 = 0 and P_n−1 the mean of
             all W: TensorRT charges the DLA's time to other layers (HaX-CoNN; Dagli, Belviranli,
             PPoPP 2024), and a prefix gives out its last tensor, which takes what leaving does.
             Else its own, A_k, times the mean of all W over the sum of all A: a group that runs
             again and again finds its weights in a cache, and has conversions at both its ends.

A run's variance is half of the mean squared difference of successive W, so that a drift is not
counted (J. von Neumann, Annals of Mathematical Statistics 12, 1941).

All numbers of a network on an accelerator are of one folder of runs: of another the cuts may be
others, as the estimator changed, and the machine may have been warmer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import hypot, sqrt
from statistics import fmean, median
from typing import Any, NamedTuple

import polars as pl
from msgspec.structs import replace

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import machine_id
from mansard.analytics.data.names import display_name, engine_name, network_key, network_names
from mansard.analytics.data.scores import score_id
from mansard.analytics.data.statistics import student_quantile
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.predict.memory_use import peak_bytes_per_s
from mansard.analytics.models.predict.row_times import remark_on
from mansard.analytics.models.scaling.call_energy import call_energy, timed
from mansard.analytics.models.scaling.observations import ran_as
from mansard.analytics.models.scaling.use_of_rows import why_unused
from mansard.core.hardware.machine_names import machine_words
from mansard.core.records import CounterRun, Manifest, Measurement, ModelScore, Record, Source

_KINDS = ("stage", "prefix", "marked")
_NOT_MARKED = "no network marked at its end was timed beside the whole one (--transitions)"


class GroupTime(Record, frozen=True, kw_only=True):
    """One group on one accelerator. Intervals are of 95 %; a cost may be below 0, as measured."""

    number: int
    nodes: tuple[int, ...]  # by LayerScore.index; those that work or move
    op_types: tuple[str, ...]  # one for each of ``nodes``
    time_s: float | None
    time_error: float | None  # half of its interval, over it
    leave_s: float | None  # what it takes more where its output is given out
    leave_error_s: float | None  # half of its interval
    demand_byte_per_s: float | None
    demand_source: Source | None
    energy_j: float | None  # of the board above its constant power, while it ran alone
    fallback_share: float | None  # of its layers alone: those that a DLA core leaves to the GPU
    remark: str  # why it has no time; empty: it has one


class GroupTimes(Record, frozen=True, kw_only=True):
    """The groups of one network in one mode on one accelerator, as it was cut."""

    run_id: str
    machine_id: str
    machine: str
    mode: str
    network: str  # as it is shown
    model_hash: str
    batch: int | None
    precision: str
    engine: str
    accelerator: str  # "gpu", "dla0", "cpu", or "cpu:0-3" for some of the mode's CPUs
    cpus: tuple[int, ...]
    source: Source
    n_groups: int  # that it was cut into
    groups: tuple[GroupTime, ...]  # those of them that were run
    # What they took alone, together, over the whole network, by which their times were divided.
    alone_share: float | None
    fallback_share: float | None  # of the layers of the whole network's engine on a DLA core


class Difference(NamedTuple):
    """A difference of measured times, and half of its 95 % interval; None: not known."""

    value_s: float
    half_s: float | None


class CountedBytes(NamedTuple):
    """What a GPU's counters say: bytes of memory that parts of a network move in a call."""

    setting: object  # of ``setting_of``
    source: Source
    parts: tuple[tuple[tuple[int, ...], float | None], ...]  # nodes by LayerScore.index, bytes


def setting_of(row: Measurement | CounterRun, model_hash: str, machine: str, mode: str) -> object:
    """What a network's times and its counters have to have in common."""
    ran = (row.engine, row.engine_version, row.provider, row.precision, row.batch)
    return (model_hash, machine, mode, ran, _dimensions(row))


class _Chain(NamedTuple):
    """What is known of one network on one accelerator, before others are looked at."""

    times: GroupTimes
    used_shares: tuple[float | None, ...]  # of the memory's bandwidth, by each group alone


def group_times(
    dataset: Dataset,
    run_ids: Collection[str] | None = None,
    counted: Iterable[CountedBytes] = (),
) -> tuple[GroupTimes, ...]:
    """Of each network, and each number of groups, by machine, mode and accelerator.

    ``run_ids``: of these runs alone. ``counted``: for demands on a GPU; the last of a setting.
    """
    by_setting = {counts.setting: counts for counts in counted}
    runs = {run.run_id: run for run in dataset.workload_manifests}
    names, traffic = network_names(dataset), _traffic_bytes(dataset)
    by_way: dict[tuple[object, ...], list[Measurement]] = {}
    for row in sorted(dataset.measurements, key=lambda row: (row.started_utc, row.run_id)):
        if row.part.kind in _KINDS and (run_ids is None or row.run_id in run_ids):
            run, part = runs[row.run_id], row.part
            where = (machine_id(run.machine), run.mode_read_back.name, part.whole_hash, part.whole)
            how = (row.batch, row.precision, engine_name(row), part.n_parts)
            by_way.setdefault((*where, *how), []).append(row)
    chains = []
    for rows in by_way.values():
        one = rows[-1].part
        name = names.get(network_key(one.whole, one.whole_hash), display_name(one.whole))
        by_run: dict[str, list[Measurement]] = {}
        for row in rows:
            if ran_as(row) == ran_as(rows[-1]):  # other dimensions and versions do not count
                by_run.setdefault(row.run_id, []).append(row)
        chains_of_run = [
            _chain(run_rows, runs[run_id], name, traffic, by_setting)
            for run_id, run_rows in by_run.items()
            if any(row.part.kind == "stage" for row in run_rows)
        ]
        # The one of which most is known; of several the newest.
        chains += sorted(chains_of_run, key=_n_known)[-1:]
    times = [_with_ratio(chain, chains) for chain in chains]
    order = ("machine", "network", "precision", "mode", "accelerator", "n_groups")
    return tuple(sorted(times, key=lambda time: [getattr(time, name) for name in order]))


def _n_known(chain: _Chain) -> tuple[int, int]:
    """How many groups have a time, and how many a cost of leaving."""
    groups = chain.times.groups
    times, leaves = ([getattr(group, name) for group in groups] for name in ("time_s", "leave_s"))
    return len(times) - times.count(None), len(leaves) - leaves.count(None)


def leave_times(
    whole_s: Mapping[int, float], marked_s: Mapping[int, float]
) -> dict[int, Difference]:
    """What leaving costs after each group of ``marked_s``, by the module's formula.

    ``whole_s``: of the whole network, by how often it had run before; those before and after the
    marked one count, or the one of them that is there.
    """
    costs = {}
    for number, time_s in marked_s.items():
        beside = [whole_s[at] for at in (number, number + 1) if at in whole_s]
        if beside:
            half_s = _half_s(whole_s, 1 + 1 / len(beside))
            costs[number] = Difference(time_s - fmean(beside), half_s)
    return costs


def prefix_times(
    whole_s: Mapping[int, float],
    prefixes_s: Mapping[int, float],
    leaves: Mapping[int, Difference],
    n_groups: int,
) -> dict[int, Difference]:
    """The time of each group as the difference of two prefixes, by the module's formula.

    ``prefixes_s``: all but the last, which is the whole network. A cost in ``leaves`` that is not
    there stays in the time of the group, and is missing in that of the next one.
    """
    if not whole_s:
        return {}
    until = {-1: Difference(0.0, 0.0)}
    until[n_groups - 1] = Difference(fmean(whole_s.values()), _half_s(whole_s, 1 / len(whole_s)))
    for number, time_s in prefixes_s.items():
        cost, own_s = leaves.get(number, Difference(0.0, 0.0)), _half_s(whole_s, 1.0)
        until[number] = Difference(time_s - cost.value_s, _joined_s(own_s, cost.half_s))
    return {
        number: Difference(
            until[number].value_s - until[number - 1].value_s,
            _joined_s(until[number].half_s, until[number - 1].half_s),
        )
        for number in range(n_groups)
        if number in until and number - 1 in until
    }


def _joined_s(one_s: float | None, other_s: float | None) -> float | None:
    """Half of the interval of a sum or difference of two."""
    return None if one_s is None or other_s is None else hypot(one_s, other_s)


def scaled_times(
    whole_s: Mapping[int, float], alone: Mapping[int, Difference], n_groups: int
) -> tuple[dict[int, Difference], float | None]:
    """The time of each group by the module's formula, and the share that they were divided by.

    Without the whole network, or without one of its groups, they are as they are, and there is no
    share. An interval has both variances.
    """
    if not whole_s or len(alone) < n_groups:
        return dict(alone), None
    mean_s, half_s = fmean(whole_s.values()), _half_s(whole_s, 1 / len(whole_s))
    share = sum(difference.value_s for difference in alone.values()) / mean_s
    scaled = {}
    for number, (value_s, own_s) in alone.items():
        is_known = own_s is not None and half_s is not None
        error = hypot(own_s / value_s, half_s / mean_s) if is_known else None  # type: ignore[operator]
        time_s = value_s / share
        scaled[number] = Difference(time_s, None if error is None else error * time_s)
    return scaled, share


def _half_s(whole_s: Mapping[int, float], n_variances: float) -> float | None:
    """Half of the 95 % interval of a sum with ``n_variances`` times the variance of a run."""
    changes_s = [after - before for before, after in pairwise(whole_s[n] for n in sorted(whole_s))]
    if not changes_s:
        return None
    variance = sum(change_s**2 for change_s in changes_s) / (2 * len(changes_s))
    return student_quantile(len(changes_s)) * sqrt(n_variances * variance)


def _chain(
    rows: Sequence[Measurement],
    run: Manifest,
    name: str,
    traffic: Mapping[object, Mapping[int, int]],
    counted: Mapping[object, CountedBytes],
) -> _Chain:
    """``rows``: of one run, the newest last."""
    used: dict[str, dict[int, Measurement]] = {kind: {} for kind in _KINDS}
    for row in rows:  # the newest good one of each number, else the newest
        by_number, number = used[row.part.kind], row.part.number
        if number not in by_number or not why_unused(row) or why_unused(by_number[number]):
            by_number[number] = row
    stages = [used["stage"][number] for number in sorted(used["stage"])]
    one, n_groups = stages[0], stages[0].part.n_parts
    prefixes_s, marked_s = (
        {n: median(row.seconds_s) for n, row in used[kind].items() if not why_unused(row)}
        for kind in ("prefix", "marked")
    )
    whole_s = {n - n_groups + 1: prefixes_s.pop(n) for n in sorted(prefixes_s) if n >= n_groups - 1}
    leaves = leave_times(whole_s, marked_s)
    on_dla = "dla_core" in one.options
    differs = on_dla and bool(used["prefix"])
    alone = {stage.part.number: time for stage in stages if (time := _alone(stage)) is not None}
    alone_share = None
    if differs:
        times = prefix_times(whole_s, prefixes_s, leaves, n_groups)
    else:
        times, alone_share = scaled_times(whole_s, alone, n_groups)
    mode = run.mode_read_back.name
    setting = setting_of(one, one.part.whole_hash, run.machine.name, mode)
    bytes_ = None if on_dla else counted.get(setting)
    all_nodes = {node for row in stages for node in row.part.nodes}
    groups, shares = [], []
    for row in stages:
        number = row.part.number
        time = times.get(number)
        use = row.conditions.memory_use
        shares.append(use.mean_share if use is not None and use.source == "actmon" else None)
        demand = None if bytes_ is None else _counted_demand(row, bytes_, all_nodes, time)
        demand = demand or _demand(row, run, shares[-1], time, traffic)
        groups.append(_group(row, time, leaves.get(number), demand, idle_power_w(run)))
    last = [row for number, row in used["prefix"].items() if number >= n_groups - 1]
    fallback = next((share for row in last if (share := _fallback(row)) is not None), None)
    unknown = {} if one.batch is not None else {"batch": "the model does not say"}
    if fallback is None:
        unknown["fallback_share"] = "no DLA core ran the whole network"
    if differs:
        unknown["alone_share"] = "times are differences of prefixes"
    elif alone_share is None:
        missing = "a group has no time" if whole_s else "the whole network was not run beside them"
        unknown["alone_share"] = f"{missing}: times are of groups alone"
    return _Chain(
        GroupTimes(
            run_id=run.run_id,
            machine_id=machine_id(run.machine),
            machine=machine_words(run.machine.name),
            mode=mode,
            network=name,
            model_hash=one.part.whole_hash,
            batch=one.batch,
            precision=one.precision,
            engine=engine_name(one),
            accelerator=_accelerator(one),
            cpus=one.cpus,
            source=one.source,
            n_groups=n_groups,
            groups=tuple(groups),
            alone_share=alone_share,
            fallback_share=fallback,
            unknown=unknown,
        ),
        tuple(shares),
    )


def _group(
    row: Measurement,
    time: Difference | None,
    leave: Difference | None,
    demand: tuple[float, Source] | None,
    idle_w: float | None,
) -> GroupTime:
    remark = remark_on(row)
    if time is not None and time.value_s <= 0:
        time, remark = None, "two prefixes differ by less than a run does from the next"
    elif time is None:
        remark = remark or "a prefix was not measured"
    energy = call_energy(row.energy or (), row.seconds_s, idle_w)
    values: dict[str, Any] = {
        "time_s": time and time.value_s,
        "time_error": time and time.half_s and time.half_s / time.value_s,
        "leave_s": leave and leave.value_s,
        "leave_error_s": leave and leave.half_s,
        "demand_byte_per_s": demand and demand[0],
        "demand_source": demand and demand[1],
        "energy_j": energy.above_idle_j,
        "fallback_share": _fallback(row),
    }
    no_demand = "no use of the memory was reported, and its traffic is unknown"
    reasons = {
        "time_s": remark,
        "time_error": remark or "it ran too few times",
        "leave_s": _NOT_MARKED,
        "leave_error_s": _NOT_MARKED if leave is None else "the whole network ran once",
        **dict.fromkeys(("demand_byte_per_s", "demand_source"), no_demand),
        "energy_j": row.unknown.get("energy") or energy.reason or "the constant power is unknown",
        "fallback_share": "it did not run on a DLA core",
    }
    return GroupTime(
        number=row.part.number,
        nodes=row.part.nodes,
        op_types=row.part.op_types,
        remark=remark if time is None else "",
        unknown={field: reasons[field] for field, value in values.items() if value is None},
        **values,
    )


def _alone(row: Measurement) -> Difference | None:
    """The time of a group that ran by itself."""
    timing = timed(() if why_unused(row) else row.seconds_s)
    if timing.time_s is None:
        return None
    if timing.low_s is None or timing.high_s is None:
        return Difference(timing.time_s, None)
    return Difference(timing.time_s, (timing.high_s - timing.low_s) / 2)


def _counted_demand(
    row: Measurement, counted: CountedBytes, all_nodes: Collection[int], time: Difference | None
) -> tuple[float, Source] | None:
    """Counted bytes over the group's time; None where a kernel ran nodes of another group too."""
    nodes, n_bytes, covered = set(row.part.nodes), 0.0, set[int]()
    for part, own_bytes in counted.parts:
        shared = nodes.intersection(part)
        if shared and (
            own_bytes is None or not nodes.issuperset(set(all_nodes).intersection(part))
        ):
            return None
        covered |= shared
        n_bytes += (own_bytes or 0.0) if shared else 0.0
    if time is None or time.value_s <= 0 or covered != nodes:
        return None
    return n_bytes / time.value_s, counted.source


def _demand(
    row: Measurement,
    run: Manifest,
    share: float | None,
    time: Difference | None,
    traffic: Mapping[object, Mapping[int, int]],
) -> tuple[float, Source] | None:
    """Bytes per second that a group moves while it runs alone: reported, else modelled."""
    peak, _ = peak_bytes_per_s(row, run)
    if peak is not None and share and not why_unused(row):  # a use of 0 was not resolved
        return peak * share, row.source
    of_layers = traffic.get((row.part.whole_hash, row.precision, row.batch, *_dimensions(row)), {})
    if time is None or time.value_s <= 0 or not of_layers.keys() >= set(row.part.nodes):
        return None
    return sum(of_layers[node] for node in row.part.nodes) / time.value_s, "modelled"


def _with_ratio(chain: _Chain, chains: Iterable[_Chain]) -> GroupTimes:
    """Modelled demands on a DLA: the GPU's times the use on the DLA over that on the GPU, and of
    its source."""
    mine, same = chain.times, ("machine_id", "mode", "model_hash", "network", "batch", "precision")
    beside = [
        other
        for other in chains
        if other.times.accelerator == "gpu"
        and all(getattr(other.times, name) == getattr(mine, name) for name in same)
        and [one.nodes for one in other.times.groups] == [one.nodes for one in mine.groups]
    ]
    if not mine.accelerator.startswith("dla") or not beside:
        return mine
    groups = list(mine.groups)
    shares = zip(chain.used_shares, beside[0].used_shares, strict=True)
    for at, (on_dla, on_gpu) in enumerate(shares):
        gpu = beside[0].times.groups[at]
        if (
            groups[at].demand_source == "modelled"
            and gpu.demand_byte_per_s is not None
            and on_dla
            and on_gpu
        ):
            groups[at] = replace(
                groups[at],
                demand_byte_per_s=gpu.demand_byte_per_s * on_dla / on_gpu,
                demand_source=gpu.demand_source,
            )
    return replace(mine, groups=tuple(groups))


def _traffic_bytes(dataset: Dataset) -> dict[object, dict[int, int]]:
    """The fused bytes of each layer by its index, of each network as it was scored."""
    ids = {score_id(score): score for score in dataset.scores if not score.bounds}
    by_network: dict[object, dict[int, int]] = {}
    known = dataset.layers.filter(
        pl.col("fused_traffic_bytes").is_not_null() & (pl.col("scope") == "")
    )
    for name, index, n_bytes in known.select(
        "score_id", "index", "fused_traffic_bytes"
    ).iter_rows():
        if (score := ids.get(name)) is not None and score.phase == "inference":
            key = (score.model_hash, score.precision, score.batch, *_dimensions(score))
            by_network.setdefault(key, {})[index] = n_bytes
    return by_network


def _dimensions(of: Measurement | ModelScore | CounterRun) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(of.dimensions.items()))


def _fallback(row: Measurement) -> float | None:
    share = row.options.get("dla_share")
    return None if share is None else 1 - float(share)


def _accelerator(row: Measurement) -> str:
    """As mappings of networks call it."""
    if row.provider == "cpu":
        return f"cpu:{row.options['cpus']}" if "cpus" in row.options else "cpu"
    if "dla_core" not in row.options:
        return "gpu"
    core = f"dla{row.options['dla_core']}"
    return f"gpu+{core}" if "dla_nodes" in row.options else core
