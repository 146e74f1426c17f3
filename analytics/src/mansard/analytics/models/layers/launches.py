"""Launches of an export of Nsight Compute as layers, joined to the nodes of a network.

An export has names of nodes only in NVTX ranges, as TensorRT makes one for each layer: all launches
in such a range are one layer. Without them launches and layers are aligned by their order and by
what they counted (``models/counters/matching.py``), which is a guess and called so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from mansard.analytics.data.published.cells import LayerRow
from mansard.analytics.models.counters.by_kernel import memory_of, total
from mansard.analytics.models.counters.check import matched_kernels
from mansard.analytics.models.counters.matching import Matching
from mansard.analytics.models.layers.engine import EngineLayer, LayerCounts, layers_of_rows
from mansard.analytics.models.layers.joining import Join, join_layers_to_nodes, nodes_by_name
from mansard.analytics.models.layers.network import NetworkGraph
from mansard.core.formats.onnx import labels_of
from mansard.core.formats.tensorrt import take_apart
from mansard.core.records import KernelCounters, ModelScore

# Of the network's multiply-adds and of the launches' time. By chance the zoo's networks reach 69 %
# and 49 % beside three recorded exports of others (264 pairs); those that ran in the exports reach
# 96 % and 49 % at least.
_LEAST_WORK, _LEAST_TIME = 0.75, 1 / 3
_MOST_PADDING = 3.0  # counted over scored FLOP of a product, or the other way for Winograd's
_GUESS = "a guess: by the order of launches and what they counted"
_NO_RANGE = "no NVTX range around it names nodes"
_NO_PLACE = "no layer of the network has its place in the order and its size"


def last_call(rows: Sequence[KernelCounters]) -> tuple[tuple[KernelCounters, ...], tuple[str, ...]]:
    """The launches of the last call of the network, where ranges tell calls apart, and notes."""
    calls = sorted({row.iteration for row in rows if row.iteration is not None})
    if not calls:
        note = "no range tells calls apart: all launches of the export are shown as one call"
        return tuple(rows), (note,)
    notes = (f"the last of {len(calls)} calls is shown",) if len(calls) > 1 else ()
    return tuple(row for row in rows if row.iteration == calls[-1]), notes


def layers_of_launches(rows: Sequence[KernelCounters]) -> tuple[EngineLayer, ...]:
    """Each of ``rows`` as a layer of its own, before anything is joined."""
    return tuple(_layer("", [row]) for row in rows)


def join_launches(
    rows: Sequence[KernelCounters], graph: NetworkGraph, score: ModelScore
) -> tuple[tuple[EngineLayer, ...], tuple[Join, ...], tuple[str, ...]]:
    """The layers that ``rows`` of one call make, the nodes of each, and notes.

    ``score``: of the network of ``graph``.
    """
    known = nodes_by_name(graph)
    names = [_naming_range(row, known) for row in rows]
    labels = {label for name in names for label in labels_of(name)}
    if labels - {layer.index for layer in score.layers}:
        note = "its ranges label nodes that the network does not have: it is another network"
        return layers_of_launches(rows), tuple(Join(remark=note) for _ in rows), (note,)
    if any(names):
        return _by_ranges(rows, names, graph)
    return _by_size(rows, score)


def _naming_range(row: KernelCounters, known: Mapping[str, int]) -> str:
    """The innermost range around a launch that names nodes or a reformat; empty: none does."""
    for name in reversed(row.nvtx or ()):
        is_named = labels_of(name) or any(part in known for part in take_apart(name).parts)
        if is_named or layers_of_rows([LayerRow(name=name)])[0].kind == "reformat":
            return name
    return ""


def _by_ranges(
    rows: Sequence[KernelCounters], names: Sequence[str], graph: NetworkGraph
) -> tuple[tuple[EngineLayer, ...], tuple[Join, ...], tuple[str, ...]]:
    groups = _groups(rows, names)
    layers = tuple(_layer(name, group) for name, group in groups)
    named = [layer for layer, (name, _) in zip(layers, groups, strict=True) if name]
    joined = iter(join_layers_to_nodes(named, graph))
    joins = tuple(next(joined) if name else Join(remark=_NO_RANGE) for name, _ in groups)
    is_repeated = len({layer.name for layer in named}) < len(named)
    note = "ranges of nodes come several times: the export may hold several calls"
    return layers, joins, (note,) if is_repeated else ()


def _by_size(
    rows: Sequence[KernelCounters], score: ModelScore
) -> tuple[tuple[EngineLayer, ...], tuple[Join, ...], tuple[str, ...]]:
    """Aligned by ``matching``, as fused groups or single nodes; no join where most is missing."""
    _, matching = matched_kernels(score, rows, 1)
    why = matching.why or _why_chance(matching, rows)
    part_of = {row.index: at for at, of in matching.kernels.items() for row in of if not why}
    keys = [f"part {part_of[row.index]}" if row.index in part_of else "" for row in rows]
    groups = _groups(rows, keys)
    layers = tuple(_layer("", group) for _, group in groups)
    joins = []
    for key, group in groups:
        if key:
            nodes = matching.parts[part_of[group[0].index]].nodes
            joins.append(Join(nodes, "order", _GUESS))
        else:
            joins.append(Join(remark=_NO_RANGE if why else _NO_PLACE))
    notes = (f"no launch is joined to nodes: {why}",) if why else ()
    return layers, tuple(joins), notes


def _why_chance(matching: Matching, rows: Sequence[KernelCounters]) -> str:
    """Why an alignment proves nothing; empty where most of the work and of the time agree."""
    flop = [part.multiply_add_flop or 0.0 for part in matching.parts]
    agreed_flop = sum(
        flop[at]
        for at, of_part in matching.kernels.items()
        if flop[at] and (counted := total((row.work_flop for row in of_part), of_part))
        if 1 / _MOST_PADDING <= counted / flop[at] <= _MOST_PADDING
    )
    work_share = agreed_flop / sum(flop) if sum(flop) else 0.0
    left_s = sum(row.time_s or 0.0 for row in matching.left)
    all_s = sum(row.time_s or 0.0 for row in rows)
    if work_share >= _LEAST_WORK and left_s <= (1 - _LEAST_TIME) * all_s:
        return ""
    time_share = f" and {1 - left_s / all_s:.1%} of the launches' time" if all_s else ""
    return (
        "without NVTX ranges an export has no names of nodes, and order and counted work agree for "
        f"{work_share:.1%} of the network's multiply-adds{time_share} alone"
    )


def _groups(
    rows: Sequence[KernelCounters], keys: Sequence[str]
) -> list[tuple[str, list[KernelCounters]]]:
    """Launches that follow one another with one key; those with an empty key each alone."""
    numbered = groupby(enumerate(keys), key=lambda pair: (pair[1], pair[0] if not pair[1] else -1))
    return [(key, [rows[at] for at, _ in same]) for (key, _), same in numbered]


def _layer(name: str, rows: Sequence[KernelCounters]) -> EngineLayer:
    """The layer of some launches: sums, and the kernel that takes longest."""
    longest = max(rows, key=lambda row: row.time_s or 0.0)
    plain = EngineLayer(name=longest.kernel, kind="layer")
    work = max((w for row in rows for w in row.work), key=lambda w: w.flop, default=None)
    is_traced = any(row.nodes is not None for row in rows) and bool(labels_of(name))
    return replace(
        layers_of_rows([LayerRow(name=name)])[0] if name else plain,
        tactic=longest.kernel,
        precision="" if work is None else work.precision,
        time_s=total((row.time_s for row in rows), rows),
        nodes=rows[0].nodes if is_traced else None,
        is_traced=is_traced,
        counts=_counts(rows, "" if work is None else work.unit),
    )


def _counts(rows: Sequence[KernelCounters], unit: str) -> LayerCounts:
    memory = [memory_of(row) for row in rows]
    flop = total((row.work_flop for row in rows), rows)
    moved = total((m.traffic_bytes if m else None for m in memory), rows)
    why_flop = next((row.unknown["work_flop"] for row in rows if row.work_flop is None), "")
    reasons = (m.unknown.get("traffic_bytes", "") if m else "" for m in memory)
    why_bytes = next(filter(None, reasons), "no metric counted them")
    return LayerCounts(flop, moved, unit, why_flop, "" if moved is not None else why_bytes)
