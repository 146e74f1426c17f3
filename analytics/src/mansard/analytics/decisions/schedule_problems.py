"""Scheduling problems from measurements, with modelled times where nothing was measured.

A problem has groups of networks on the accelerators of one machine. Modelled times are labelled
as modelled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from msgspec.structs import replace

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import machine_id, processor_of
from mansard.analytics.data.model_frames import INTERVALS
from mansard.analytics.data.names import device_labels
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.contention import VictimContention
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.analytics.models.predict.group_times import GroupTime, GroupTimes
from mansard.analytics.models.predict.measured import prefer_measured
from mansard.analytics.models.predict.prediction import Prediction
from mansard.core.errors import UsageError
from mansard.core.hardware import is_one_mode
from mansard.core.records import Accelerator, LayerGroup, NetworkChain, Problem
from mansard.core.text import listed

DLA_LOADABLES = 16  # of a DLA core; NVIDIA, TensorRT Developer Guide, "DLA Limitations"
_Nodes = tuple[tuple[int, ...], ...]  # of the groups of a network


def problem_of_runs(
    wanted: Problem,
    measured: Sequence[GroupTimes],
    contention: Sequence[VictimContention],
    dataset: Dataset,
    mode: str | None = None,
    *,
    is_lenient: bool = False,
) -> Problem:
    """``wanted`` completed by the measured groups, accelerators and contention.

    A network that has groups keeps them. If a network was cut or run in several ways, the one with
    the most accelerators is used, then the fastest. A batch of 0 means the smallest measured batch;
    no networks mean all measured networks. ``is_lenient``: networks that were not measured stay
    without groups; otherwise they raise UsageError, as do several machines or modes.
    """
    names = [_model(chain) for chain in wanted.networks if not chain.groups]
    known = [times for times in measured if not names or times.network in names]
    known = [
        times for times in known if mode is None or is_one_mode(times.mode, mode, times.machine)
    ]
    begun = {times.network: times for times in known if len(times.groups) < times.n_groups}
    known = [times for times in known if len(times.groups) == times.n_groups]
    for name in () if is_lenient else names:
        if not any(times.network == name for times in known):
            where = f" in {mode}" if mode else ""
            what = f"no group of {name} was measured{where}"
            fix = f"measure them: {groups_command(name, 8, mode=mode)}"
            if name in begun:
                what, fix = (
                    _begun(begun[name]),
                    "the command that was interrupted measures the rest",
                )
            raise UsageError(what, fix=fix)
    if not known and not wanted.networks:
        fix = f"measure networks: {groups_command('NETWORK', 8)}"
        raise UsageError("no groups of networks were measured", fix=fix)
    networks, used, notes = [], list[GroupTimes](), list(wanted.notes)
    notes += [f"{_begun(times)}: left out" for times in begun.values()]
    for chain in wanted.networks or _chains(known):
        if chain.groups:
            networks.append(chain)
            continue
        of_chain = [times for times in known if times.network == _model(chain)]
        if not of_chain:
            networks.append(replace(chain, batch=chain.batch or 1))
            continue
        chosen = _choose_cut(of_chain, chain)
        used += chosen
        networks.append(_filled(chain, chosen))
    if used:
        wanted = _placed(wanted, used, dataset)
        notes += [*_doubts(used), *_missing(wanted.accelerators, used)]
    filled = replace(wanted, networks=tuple(networks), notes=tuple(dict.fromkeys(notes)))
    return _contended(filled, contention, dataset, used)


def _model(chain: NetworkChain) -> str:
    """What runs call the network of ``chain``."""
    return Path(chain.model or chain.name).name.removesuffix(".onnx")


def groups_command(
    network: str, n_groups: int, accelerators: Iterable[str] = (), mode: str | None = None
) -> str:
    """The command that measures the groups of a network."""
    parts = [f" --cpus {name.removeprefix('cpu:')}" for name in accelerators if "cpu:" in name]
    parts += [f" --mode {mode}"] if mode else []
    groups = f"--each-layer stages --groups {n_groups} --transitions"
    return f"mansard measure {network} {groups}{''.join(parts)}"


def _begun(times: GroupTimes) -> str:
    n_groups = f"{len(times.groups)} of {times.n_groups} groups"
    return f"only {n_groups} of {times.network} were measured on {times.accelerator}"


def _chains(known: Iterable[GroupTimes]) -> list[NetworkChain]:
    names = dict.fromkeys(times.network for times in known)
    return [NetworkChain(name=name, groups=(), model=name, batch=0) for name in names]


def _only(values: Iterable[str], what: str, option: str) -> str:
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 1:
        raise UsageError(
            f"the runs are of several {what}: {listed(distinct)}", fix=f"name one {option}"
        )
    return distinct[0]


def _choose_cut(measured: Sequence[GroupTimes], chain: NetworkChain) -> list[GroupTimes]:
    """The measurements of one cut, a batch and a precision: one of each accelerator."""
    matching = [times for times in measured if chain.precision in {"", times.precision}]
    batch = chain.batch or min((times.batch or 1 for times in matching), default=1)
    matching = [times for times in matching if times.batch in {None, batch}]
    if not matching:
        ways = listed(sorted({f"{times.precision} at batch {times.batch}" for times in measured}))
        what = f"{chain.name} was not measured in {chain.precision or 'any precision'} at batch "
        raise UsageError(f"{what}{batch}", fix=f"there is {ways}; a problem file names them")
    cuts: dict[tuple[_Nodes, str], dict[str, GroupTimes]] = defaultdict(dict)
    for times in matching:
        alike = cuts[tuple(group.nodes for group in times.groups), times.precision]
        best = alike.get(times.accelerator)
        if best is None or _total_s(times) < _total_s(best):
            alike[times.accelerator] = times
    chosen = max(cuts.values(), key=lambda cut: (len(cut), -min(map(_total_s, cut.values()))))
    if sum(name.startswith("cpu:") for name in chosen) > 1:
        chosen.pop("cpu", None)  # its partitions are the same CPUs
    return list(chosen.values())


def _total_s(times: GroupTimes) -> float:
    known = [group.time_s for group in times.groups if group.time_s is not None]
    return sum(known) if len(known) == len(times.groups) else float("inf")


def _filled(chain: NetworkChain, measured: Sequence[GroupTimes]) -> NetworkChain:
    """``chain`` with its groups; costs that were measured below 0 count as 0.

    Raises UsageError for a group that has a time nowhere.
    """
    numbered = list(zip(*(times.groups for times in measured), strict=True))
    names = [times.accelerator for times in measured]
    for same in numbered:
        if all(group.time_s is None for group in same):
            why = "; ".join(dict.fromkeys(group.remark for group in same))
            raise UsageError(
                f"group {same[0].number} of {chain.name} has no time on {listed(names)}: {why}",
                fix="move the folder of its run away and measure it again",
            )
    groups = tuple(_group(names, same, measured[0].source) for same in numbered)
    return replace(
        chain,
        groups=groups,
        precision=measured[0].precision,
        batch=measured[0].batch or chain.batch or 1,
    )


def _group(names: Sequence[str], measured: Sequence[GroupTime], source: str) -> LayerGroup:
    def table(field: str) -> dict[str, float]:
        by_name = zip(names, (getattr(group, field) for group in measured), strict=True)
        # Six digits: what is written can be read by people.
        return {
            name: float(f"{max(value, 0.0):.6g}") for name, value in by_name if value is not None
        }

    times = table("time_s")
    first, last = measured[0].nodes[0], measured[0].nodes[-1]
    return LayerGroup(
        name=str(first) if first == last else f"{first}-{last}",
        time_s=times,
        energy_j=table("energy_j"),
        demand_byte_per_s=table("demand_byte_per_s"),
        leave_s=table("leave_s"),
        enter_s=dict.fromkeys(times, 0.0),
        time_error=table("time_error"),
        leave_error_s=table("leave_error_s"),
        source=source,  # type: ignore[arg-type]
        nodes=measured[0].nodes,
    )


def _doubts(used: Iterable[GroupTimes]) -> list[str]:
    """Notes on modelled, clamped and unknown values of the groups."""
    places, notes = defaultdict[str, list[str]](list), list[str]()
    for times in used:
        where, groups = f"{times.network} on {times.accelerator}", times.groups
        for what, n in (
            (
                "demands are modelled, fused traffic over the time",
                sum(group.demand_source == "modelled" for group in groups),
            ),
            (
                "transitions measured below 0 count as 0",
                sum(group.leave_s is not None and group.leave_s < 0 for group in groups),
            ),
            (
                "groups have layers that fall back to the GPU",
                sum(bool(group.fallback_share) for group in groups),
            ),
        ):
            if n:
                places[what].append(f"{n} of {where}")
        if times.alone_share is not None:
            share = f"{100 * times.alone_share:.0f} % of {where}"
            places["times are scaled to whole networks, of which groups alone took"].append(share)
        else:
            places[times.unknown["alone_share"]].append(where)
        for group in groups:
            if group.time_s is None:
                notes.append(f"{where}: group {group.number} has no time: {group.remark}")
        if all(group.leave_s is None for group in groups):
            command = groups_command(times.network, len(groups), [times.accelerator])
            notes.append(f"{where}: no transition was measured: {command}")
    said = [f"{what}: {', '.join(where)}" for what, where in places.items()]
    entering = "what entering an accelerator costs was not measured, and counts as 0"
    return [*said, *notes, entering]


def _placed(wanted: Problem, used: Sequence[GroupTimes], dataset: Dataset) -> Problem:
    """``wanted`` with the machine, its mode, its accelerators and its constant power."""
    _only((times.machine_id for times in used), "machines", "folder of runs for times")
    mode = _only((times.mode for times in used), "modes", "with --mode")
    accelerators = {known.name: known for known in wanted.accelerators}
    for times in used:
        kind: Literal["gpu", "dla", "cpu"] = "cpu"
        if not times.accelerator.startswith("cpu"):
            kind = "dla" if times.accelerator.startswith("dla") else "gpu"
        accelerators.setdefault(
            times.accelerator,
            Accelerator(
                name=times.accelerator,
                kind=kind,
                cpus=times.cpus if kind == "cpu" else (),
                max_segments=DLA_LOADABLES if kind == "dla" else 0,
            ),
        )
    cpus = [
        (processor.name, {*processor.cpus})
        for processor in accelerators.values()
        if processor.kind == "cpu"
    ]
    for at, (name, cpu_set) in enumerate(cpus):
        for other, others in cpus[:at]:
            if cpu_set & others:
                what = f"{other} and {name} are the same CPUs, so they cannot run side by side"
                raise UsageError(what, fix="keep the runs of each partition in a folder of its own")
    run_ids = {times.run_id for times in used}
    runs = [run for run in dataset.workload_manifests if run.run_id in run_ids]
    idle_w = next((watts for run in runs if (watts := idle_power_w(run)) is not None), None)
    unknown = {} if wanted.idle_w is not None else wanted.unknown
    if wanted.idle_w is None and idle_w is not None:
        wanted = replace(wanted, idle_w=float(f"{idle_w:.6g}"), unknown={})
    return replace(
        wanted,
        machine=wanted.machine or used[0].machine,
        mode=wanted.mode or mode,
        accelerators=tuple(accelerators.values()),
        unknown=unknown if wanted.idle_w is None else {},
    )


def _missing(accelerators: Sequence[Accelerator], used: Sequence[GroupTimes]) -> list[str]:
    """Networks that were not measured on all accelerators."""
    by_network: dict[str, list[GroupTimes]] = defaultdict(list)
    for times in used:
        by_network[times.network].append(times)
    notes = []
    for network, measured in by_network.items():
        names = {times.accelerator for times in measured}
        if others := [processor.name for processor in accelerators if processor.name not in names]:
            what = f"{network} was not measured on {listed(others)}"
            notes.append(f"{what}: {groups_command(network, len(measured[0].groups), others)}")
    if len(accelerators) == 1:
        notes.append(f"all was measured on {accelerators[0].name} alone: nothing can be split")
    return notes


def _contended(
    problem: Problem,
    contention: Sequence[VictimContention],
    dataset: Dataset,
    used: Sequence[GroupTimes],
) -> Problem:
    """``problem`` with the measured surfaces of accelerators that have no contention yet."""
    machines = {run.run_id: machine_id(run.machine) for run in dataset.workload_manifests}
    machine = used[0].machine_id if used else None
    surfaces, notes = dict(problem.surfaces), list(problem.notes)
    names = [accelerator.name for accelerator in problem.accelerators]
    here = [
        victim
        for victim in contention
        if machine in {None, machines.get(victim.run_id)}
        and (not problem.mode or is_one_mode(victim.mode, problem.mode, victim.device))
    ]
    for accelerator in problem.accelerators:
        name = accelerator.name
        if name in problem.pccs or name in surfaces:
            continue
        points = [victim for victim in here if victim.victim == name]
        points.sort(
            key=lambda victim: victim.aggressor not in names
        )  # the problem's own comes first
        known = next((victim for victim in points if victim.surface is not None), None)
        if known is not None and known.surface is not None:
            surfaces[name] = known.surface
            if len(problem.accelerators) > 2:
                notes.append(f"contention of {name} was measured beside {known.aggressor} alone")
        elif len(problem.accelerators) > 1:
            why = _why_uncontended(accelerator, points, here)
            notes.append(f"contention of {name} is unknown, and not counted: {why}")
    return replace(problem, surfaces=surfaces, notes=tuple(notes))


def _why_uncontended(
    accelerator: Accelerator, points: Sequence[VictimContention], here: Sequence[VictimContention]
) -> str:
    """Why an accelerator has no surface, or the command that measures one."""
    if accelerator.kind == "dla":
        return "no demand of a DLA can be set"
    if points:
        return f"{points[0].unknown['surface']}; mansard multi contention measures them again"
    others = [row.victim for row in here if row.victim.partition(":")[0] == accelerator.kind]
    if others:
        cpus = f"mansard measure --cpus {others[0].partition(':')[2]} takes the same"
        return f"that of {listed(sorted({*others}))} was measured; {cpus}"
    return "mansard multi contention"


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
        labels[run.run_id]: run for run in manifests if labels[run.run_id] in {*rows["device"]}
    }
    if len({machine_id(run.machine) for run in devices.values()}) > 1:
        raise UsageError(f"predictions are of {listed(list(devices))}", fix="name a folder of one")
    modes = [problem.mode] if problem.mode else rows["mode"].unique(maintain_order=True).to_list()
    if len(modes) > 1:
        raise UsageError(f"the runs are of several modes: {listed(modes)}", fix="name one: --mode")
    rows = rows.filter(pl.col("mode").is_in(modes))
    has_partitions = any(processor.name.startswith("cpu:") for processor in problem.accelerators)
    processors = {
        device: processor_of(run)
        for device, run in devices.items()
        if not (has_partitions and processor_of(run) == "cpu")
    }
    groups = predict_groups(predicted.groups, predicted.coefficients, predicted.modes)
    networks, notes = [], list(problem.notes)
    for chain in problem.networks:
        filled = chain
        for device, name in processors.items():
            predictions = rows.filter(network=names[chain.name], device=device, batch=chain.batch)
            if chain.precision:
                predictions = predictions.filter(precision=chain.precision)
            if predictions.is_empty() or any(name in group.time_s for group in chain.groups):
                continue
            row = predictions.row(0, named=True)
            of_score = groups.filter(
                device=device, mode=row["mode"], score_id=row["score_id"]
            ).to_dicts()
            filled = _with_times(filled, name, row, of_score)
            meaning = INTERVALS.get(row["interval"] or "", "without an interval")
            notes.append(f"{chain.name} on {name}: times are {row['source']}: {meaning}")
        if not filled.groups:
            partitions = ": no prediction is of some CPUs" if has_partitions else ""
            what = f"{chain.name} was not measured; nothing is predicted of it here{partitions}"
            raise UsageError(what, fix=f"measure it: {groups_command(chain.name, 8)}")
        networks.append(filled)
    used = {name for chain in networks for group in chain.groups for name in group.time_s}
    known = {processor.name for processor in problem.accelerators}
    added = [
        Accelerator(name=name, kind=name)
        for name in dict.fromkeys(processors.values())
        if name in used - known
    ]
    return replace(
        problem,
        networks=tuple(networks),
        accelerators=(*problem.accelerators, *added),
        machine=problem.machine or next((run.machine.name for run in devices.values()), ""),
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
        filled = _modelled_group(whole, accelerator, row["latency_s"], ends, None)
        is_modelled = row["source"] == "modelled" or whole.source == "modelled"
        source = "modelled" if is_modelled else row["source"]
        return replace(chain, groups=(replace(filled, source=source),))
    filled_groups = []
    for group in chain.groups:
        nodes = [node for node in groups if node["group"] in group.nodes]
        if not nodes or any(node["time_s"] is None for node in nodes):
            return chain
        low_s, time_s, high_s = (sum(node[name] for node in nodes) for name in _TIMES)
        traffic = [node["traffic_bytes"] for node in nodes]
        n_bytes = None if None in traffic else sum(traffic)
        filled_groups.append(_modelled_group(group, accelerator, time_s, (low_s, high_s), n_bytes))
    return replace(chain, groups=tuple(filled_groups))


_TIMES = ("low_s", "time_s", "high_s")


def _modelled_group(
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
