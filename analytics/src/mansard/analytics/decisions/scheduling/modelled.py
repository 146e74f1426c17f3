"""Modelled times in the place of those that were not measured, labelled as modelled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from msgspec.structs import replace

from mansard.analytics.data.dataset import machine_id, processor_of
from mansard.analytics.data.model_frames import INTERVALS
from mansard.analytics.data.names import device_labels
from mansard.analytics.decisions.scheduling.problems import measuring
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.analytics.models.predict.measured import prefer_measured
from mansard.analytics.models.predict.prediction import Prediction
from mansard.core.errors import UsageError
from mansard.core.records import Accelerator, LayerGroup, NetworkChain, Problem
from mansard.core.text import listed


def with_modelled(problem: Problem, predicted: Prediction, names: Mapping[str, str]) -> Problem:
    """``problem`` with predicted times of the GPU or the CPU where a network has none there.

    ``names``: how predictions call its networks. A network without groups becomes one group. A
    group in which any time is modelled is modelled; what a change to or from an accelerator with
    modelled times costs stays unknown. Raises UsageError for several machines or modes.
    """
    manifests = predicted.models.dataset.all_manifests
    labels = device_labels(manifests)
    rows = prefer_measured(predicted).filter(pl.col("latency_s").is_not_null())
    devices = {
        labels[each.run_id]: each for each in manifests if labels[each.run_id] in {*rows["device"]}
    }
    if len({machine_id(each.machine) for each in devices.values()}) > 1:
        raise UsageError(f"predictions are of {listed(list(devices))}", fix="name a folder of one")
    modes = [problem.mode] if problem.mode else rows["mode"].unique(maintain_order=True).to_list()
    if len(modes) > 1:
        raise UsageError(f"the runs are of several modes: {listed(modes)}", fix="name one: --mode")
    rows = rows.filter(pl.col("mode").is_in(modes))
    has_partitions = any(each.name.startswith("cpu:") for each in problem.accelerators)
    processors = {
        device: processor_of(each)
        for device, each in devices.items()
        if not (has_partitions and processor_of(each) == "cpu")
    }
    groups = predict_groups(predicted.groups, predicted.coefficients, predicted.modes)
    networks, notes = [], list(problem.notes)
    for chain in problem.networks:
        found = chain
        for device, name in processors.items():
            own = rows.filter(network=names[chain.name], device=device, batch=chain.batch)
            if chain.precision:
                own = own.filter(precision=chain.precision)
            if own.is_empty() or any(name in group.time_s for group in chain.groups):
                continue
            row = own.row(0, named=True)
            of_score = groups.filter(
                device=device, mode=row["mode"], score_id=row["score_id"]
            ).to_dicts()
            found = _with_times(found, name, row, of_score)
            meaning = INTERVALS.get(row["interval"] or "", "without an interval")
            notes.append(f"{chain.name} on {name}: times are {row['source']}: {meaning}")
        if not found.groups:
            partitions = ": no prediction is of some CPUs" if has_partitions else ""
            what = f"{chain.name} was not measured; nothing is predicted of it here{partitions}"
            raise UsageError(what, fix=f"measure it: {measuring(chain.name, 8)}")
        networks.append(found)
    used = {name for each in networks for group in each.groups for name in group.time_s}
    known = {each.name for each in problem.accelerators}
    added = [
        Accelerator(name=name, kind=name)
        for name in dict.fromkeys(processors.values())
        if name in used - known
    ]
    return replace(
        problem,
        networks=tuple(networks),
        accelerators=(*problem.accelerators, *added),
        machine=problem.machine or next((each.machine.name for each in devices.values()), ""),
        mode=problem.mode or (modes[0] if modes else ""),
        notes=tuple(notes),
    )


def _with_times(
    chain: NetworkChain, accelerator: str, row: Mapping[str, Any], groups: list[dict[str, Any]]
) -> NetworkChain:
    """``chain`` with times on one accelerator more: of each group, or of the whole as one."""
    if not chain.groups or (len(chain.groups) == 1 and not chain.groups[0].nodes):
        whole = chain.groups[0] if chain.groups else LayerGroup(name="all", time_s={})
        ends = (row["latency_low_s"], row["latency_high_s"])
        filled = _group(whole, accelerator, row["latency_s"], ends, None)
        is_modelled = row["source"] == "modelled" or whole.source == "modelled"
        source = "modelled" if is_modelled else row["source"]
        return replace(chain, groups=(replace(filled, source=source),))
    filled_groups = []
    for group in chain.groups:
        own = [each for each in groups if each["group"] in group.nodes]
        if not own or any(each["time_s"] is None for each in own):
            return chain
        low_s, time_s, high_s = (sum(each[name] for each in own) for name in _TIMES)
        traffic = [each["traffic_bytes"] for each in own]
        n_bytes = None if None in traffic else sum(traffic)
        filled_groups.append(_group(group, accelerator, time_s, (low_s, high_s), n_bytes))
    return replace(chain, groups=tuple(filled_groups))


_TIMES = ("low_s", "time_s", "high_s")


def _group(
    group: LayerGroup,
    accelerator: str,
    time_s: float,
    ends: tuple[float | None, float | None],
    n_bytes: float | None,
) -> LayerGroup:
    """``group`` with a modelled time; half of its interval where it has two ends."""
    low_s, high_s = ends
    error, demand = dict(group.time_error), dict(group.demand_byte_per_s)
    if low_s is not None and high_s is not None and high_s < float("inf"):
        error[accelerator] = float(f"{(high_s - low_s) / 2 / time_s:.6g}")
    if n_bytes is not None and time_s > 0:
        demand[accelerator] = float(f"{n_bytes / time_s:.6g}")
    return replace(
        group,
        time_s=group.time_s | {accelerator: float(f"{time_s:.6g}")},
        time_error=error,
        demand_byte_per_s=demand,
        enter_s=group.enter_s | {accelerator: 0.0},
        source="modelled",
    )
