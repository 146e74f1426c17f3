"""Each layer of an engine under its roof: its time, the time that the roof allows, and the gap.

    roof time   max(W / P, Q / B)
    share       roof time over measured time
    gap         measured time less roof time: the most that can be gained

W: FLOP of the nodes that it runs, as the estimator counts them; FLOP that a profiler counted where
no node is known. Q: bytes that a profiler counted; else those of the tensors that the engine
describes, and of the layer's weights; else those of the nodes as one kernel
(``NetworkGraph.traffic_bytes``). P: the peak of its precision. B: the bandwidth of DRAM; where the
layer is faster than DRAM allows and its bytes were not counted there, that of the first cache that
allows it.

A layer is bound by its launch where a launch is longer than its roof time, and the layer is shorter
than three launches. A launch whose time is not known is at most as long as the shortest layer with
nodes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mansard.analytics.models.counters.check import AGREE
from mansard.analytics.models.layers.engine import EngineLayer, EngineLayerKind
from mansard.analytics.models.layers.joining import Join, JoinedBy, join_layers_to_nodes
from mansard.analytics.models.layers.network import NetworkGraph
from mansard.analytics.models.layers.roofs import LayerRoofs, MemoryRoof
from mansard.core.formats.onnx import label, labels_of
from mansard.core.precision import PRECISIONS
from mansard.core.records import LayerScore, ModelScore, Record, Source

LayerBound = Literal["compute", "memory", "launch", "unknown"]
# Where its bytes come from: a profiler's counters, the engine's description, its nodes.
TrafficOf = Literal["counted", "engine", "estimate", "unknown"]
WorkOf = Literal["nodes", "counted", "unknown"]

_TF32 = re.compile(r"tf32", re.I)
# Kernels whose names say that they multiply on CUDA cores: SIMT, matrix times vector, dp4a.
_ON_CUDA_CORES = re.compile(r"simt|gemvx|scudnn|sgemm|icudnn_int8x4|ffma", re.I)
_LEAST_WORK = 0.01  # of the products' FLOP; smaller layers are no advice about tensor cores
_ABOVE = 1.05  # of the roof; less is noise
_MOST_LAUNCHES = 3.0  # in the time of a layer that is bound by its launch


class RoofedLayer(Record, frozen=True, kw_only=True):
    """One layer of an engine beside its nodes and its roof; ``share`` is of all layers' time."""

    index: int  # in the order in which the engine ran it
    name: str
    kind: EngineLayerKind
    op_type: str  # as the engine calls it; empty: it does not say
    kernel: str  # likewise
    nodes: tuple[int, ...]  # by LayerScore.index
    operators: tuple[str, ...]  # of ``nodes``, those that work or move first
    joined_by: JoinedBy
    precision: str  # of its work; empty: not known
    time_s: float | None
    share: float | None
    work_flop: float | None
    work_of: WorkOf
    counted_flop: float | None  # by a profiler, whatever ``work_flop`` is
    traffic_bytes: float | None
    traffic_of: TrafficOf
    estimated_bytes: float | None  # of ``nodes`` as one kernel, whatever ``traffic_bytes`` is
    intensity: float | None  # FLOP/byte
    flop_per_s: float | None  # achieved
    bytes_per_s: float | None
    peak: str  # that its work is held against, such as "fp16 tensor"; empty: none
    level: str  # of memory, likewise
    roof_s: float | None
    roof_share: float | None  # of the roof that is reached: 1 is all
    bound: LayerBound
    gap_s: float | None
    remark: str


class RoofedLayers(Record, frozen=True, kw_only=True):
    """The layers of one engine, those with the largest gap first.

    Shares are of the layers' time: ``joined_share`` of those with nodes, ``reformat_share`` of
    copies between formats, ``own_share`` of what else the engine added, ``lost_share`` of layers
    that should have nodes and could not be joined. They sum to 1.
    """

    network: str
    batch: int | None
    precision: str
    engine: str  # what timed the layers, in words
    device: str  # empty: not said
    mode: str
    label: str  # of the build that was measured; empty: none
    source: Source  # of the times
    roofs: str  # whose roofs; empty: none are known
    roofs_source: Source | None
    layers_s: float | None  # of all layers, in sum
    whole_s: float | None  # of a call that was not profiled
    joined_share: float | None
    reformat_share: float | None
    own_share: float | None
    lost_share: float | None
    guessed_share: float | None  # of the time that was joined by a guess; part of joined_share
    joined_work_share: float | None  # of the network's FLOP
    gap_s: float | None  # the sum of the gaps above 0: the most that can be gained
    launch_s: float | None  # of a roof, else of the shortest layer with nodes
    peaks: dict[str, float]  # FLOP/s, by name
    levels: tuple[MemoryRoof, ...]
    layers: tuple[RoofedLayer, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LayersOrigin:
    """Where the times come from; see ``RoofedLayers``."""

    engine: str
    source: Source
    device: str = ""
    mode: str = ""
    label: str = ""
    whole_s: float | None = None
    notes: tuple[str, ...] = ()


def roofed_layers(
    layers: Sequence[EngineLayer],
    graph: NetworkGraph,
    score: ModelScore,
    roofs: LayerRoofs,
    origin: LayersOrigin,
    joins: Sequence[Join] | None = None,
) -> RoofedLayers:
    """The layers of an engine joined to ``graph`` and held against ``roofs``.

    ``joins``: the nodes of each layer, where something other than the layers tells them.
    """
    joins = join_layers_to_nodes(layers, graph) if joins is None else joins
    total_s = sum(layer.time_s or 0.0 for layer in layers)
    heavy = _LEAST_WORK * sum(row.multiply_add_flop or 0 for row in score.layers)
    of_nodes = [layer.time_s for layer, join in zip(layers, joins, strict=True) if join.nodes]
    least_s = min(filter(None, of_nodes), default=None)
    launch_s = roofs.launch_s if roofs.launch_s is not None else least_s
    context = _Context(graph, roofs, total_s, heavy, launch_s)
    rows = [
        _row(at, layer, join, context)
        for at, (layer, join) in enumerate(zip(layers, joins, strict=True))
    ]
    rows.sort(key=lambda row: (-(row.gap_s or 0.0), -(row.time_s or 0.0), row.index))
    whole = sum(row.work_flop or 0 for row in score.layers)
    joined_flop = sum(graph.layers[i].work_flop or 0 for join in joins for i in join.nodes)
    gaps = [row.gap_s for row in rows if row.gap_s is not None]
    lost = _lost_notes(graph, joins, whole)
    values = {
        "layers_s": total_s or None,
        "whole_s": origin.whole_s,
        **_shares(rows, total_s),
        "joined_work_share": joined_flop / whole if whole else None,
        "gap_s": sum(max(gap, 0.0) for gap in gaps) if gaps else None,
        "launch_s": launch_s,
        "roofs_source": roofs.source if not roofs.why else None,
    }
    why = {
        "whole_s": "no time of a call without a profile is known",
        "joined_work_share": "the network does no work",
        "gap_s": roofs.why or "no layer has a time and a roof",
        "launch_s": "no layer with nodes has a time",
        "roofs_source": roofs.why,
    }
    return RoofedLayers(
        network=score.model,
        batch=score.batch,
        precision=score.precision,
        engine=origin.engine,
        device=origin.device,
        mode=origin.mode,
        label=origin.label,
        source=origin.source,
        roofs=roofs.label,
        peaks={
            f"{name} tensor" if family == "tensor" else name: value
            for (name, family), value in roofs.peaks.items()
        },
        levels=roofs.levels,
        layers=tuple(rows),
        notes=(*origin.notes, *lost),
        **values,  # type: ignore[arg-type]
        unknown={
            **{
                name: why.get(name, "no layer has a time")
                for name in values
                if values[name] is None
            },
            **({} if score.batch is not None else {"batch": "the network has no batch"}),
        },
    )


def _shares(rows: Sequence[RoofedLayer], total_s: float) -> dict[str, float | None]:
    joined = [row for row in rows if row.nodes]
    others = [row for row in rows if not row.nodes]
    groups = {
        "joined_share": joined,
        "reformat_share": [row for row in others if row.kind == "reformat"],
        "own_share": [row for row in others if row.kind == "engine"],
        "lost_share": [row for row in others if row.kind in {"layer", "region"}],
        "guessed_share": [row for row in joined if "a guess" in row.remark],
    }
    return {
        name: sum(row.time_s or 0.0 for row in group) / total_s if total_s else None
        for name, group in groups.items()
    }


def _lost_notes(graph: NetworkGraph, joins: Sequence[Join], whole: int) -> list[str]:
    taken = {node for join in joins for node in join.nodes}
    lost = [
        node
        for node in graph.nodes
        if node.index not in taken and graph.layers[node.index].work_flop
    ]
    if not lost or not whole:
        return []
    share = sum(graph.layers[node.index].work_flop or 0 for node in lost) / whole
    return [f"{len(lost)} nodes with {share:.2%} of the work are in no layer"]


@dataclass(frozen=True)
class _Context:
    graph: NetworkGraph
    roofs: LayerRoofs
    total_s: float
    least_flop: float  # of a layer whose kernel is worth a remark
    launch_s: float | None


def _row(at: int, layer: EngineLayer, join: Join, context: _Context) -> RoofedLayer:
    scores = [context.graph.layers[node] for node in join.nodes]
    operators = sorted(scores, key=lambda s: (-(s.work_flop or 0), -(s.traffic_bytes or 0)))
    is_open = layer.kind in {"layer", "region"} and not join.nodes
    counts = layer.counts
    counted_flop = counts.flop if counts is not None else None
    work = counted_flop if is_open else _work(scores)
    traffic, traffic_of = _traffic(layer, join, context.graph)
    precision = _precision_of(layer, scores)
    roof = _roof(layer, scores, precision, work, traffic, context)
    remarks = (join.remark, *_remarks(layer, scores, work, roof, context))
    time_s = layer.time_s
    values = {
        "time_s": time_s,
        "share": time_s / context.total_s if time_s is not None and context.total_s else None,
        "work_flop": work,
        "counted_flop": counted_flop,
        "traffic_bytes": traffic,
        "estimated_bytes": float(context.graph.traffic_bytes(join.nodes)) if join.nodes else None,
        "intensity": work / traffic if work is not None and traffic else None,
        "flop_per_s": work / time_s if work is not None and time_s else None,
        "bytes_per_s": traffic / time_s if traffic is not None and time_s else None,
        "roof_s": roof.roof_s,
        "roof_share": roof.roof_s / time_s if roof.roof_s is not None and time_s else None,
        "gap_s": time_s - roof.roof_s if roof.roof_s is not None and time_s is not None else None,
    }
    return RoofedLayer(
        index=at,
        name=_named(layer.name, context.graph),
        kind=layer.kind,
        op_type=layer.op_type,
        kernel=layer.tactic,
        nodes=join.nodes,
        operators=tuple(dict.fromkeys(score.op_type for score in operators)),
        joined_by=join.by,
        precision=precision,
        work_of="unknown" if work is None else "counted" if is_open else "nodes",
        traffic_of=traffic_of,
        peak=roof.peak,
        level=roof.level,
        bound=roof.bound,
        remark="; ".join(filter(None, remarks)),
        unknown={
            name: _why_unknown(name, join, roof, layer)
            for name, value in values.items()
            if value is None
        },
        **values,
    )


def _named(name: str, graph: NetworkGraph) -> str:
    """A layer's name with the names of nodes in the place of their labels."""
    for index in labels_of(name):
        node = graph.by_index.get(index)
        if node is not None:
            name = name.replace(label(index), node.name or f"{node.op_type} {index}")
    return name


def _why_unknown(name: str, join: Join, roof: _Roof, layer: EngineLayer) -> str:
    if name in {"time_s", "share"} or (name.endswith("_per_s") and not layer.time_s):
        return "the engine did not time it"
    if name in {"roof_s", "roof_share", "gap_s"} and (layer.time_s or name == "roof_s"):
        return roof.why
    counts = layer.counts
    by_counts = {} if counts is None else {"counted_flop": counts.why_flop}
    if counts is not None and not join.nodes:
        by_counts |= {"work_flop": counts.why_flop, "traffic_bytes": counts.why_bytes}
    reasons = {
        "counted_flop": "what timed it counts no FLOP",
        "estimated_bytes": join.remark or "it runs no node",
        "intensity": "its work or its bytes are unknown, or it moves nothing",
        **by_counts,
    }
    if name in reasons:
        return reasons[name]
    return join.remark or "a node of it has no count" if layer.time_s else "it took no time"


def _work(scores: Sequence[LayerScore]) -> int | None:
    counts = [score.work_flop for score in scores]
    return None if None in counts else sum(filter(None, counts))


def _traffic(layer: EngineLayer, join: Join, graph: NetworkGraph) -> tuple[float | None, TrafficOf]:
    if layer.counts is not None and layer.counts.traffic_bytes is not None:
        return layer.counts.traffic_bytes, "counted"
    described = layer.traffic_bytes
    if described is not None:
        return described, "engine"
    if join.nodes:
        return float(graph.traffic_bytes(join.nodes)), "estimate"
    return None, "unknown"


def _precision_of(layer: EngineLayer, scores: Sequence[LayerScore]) -> str:
    """As the engine's formats and kernels say, else as the network is scored."""
    heavy = _heaviest(scores)
    precision = layer.precision or (heavy.precision if heavy is not None else "")
    return "tf32" if precision == "fp32" and _TF32.search(layer.tactic) else precision


def _heaviest(scores: Sequence[LayerScore]) -> LayerScore | None:
    return max(scores, key=lambda score: score.work_flop or 0, default=None)


@dataclass(frozen=True)
class _Roof:
    roof_s: float | None
    bound: LayerBound
    peak: str
    level: str
    why: str  # no roof


def _roof(
    layer: EngineLayer,
    scores: Sequence[LayerScore],
    precision: str,
    work: float | None,
    traffic: float | None,
    context: _Context,
) -> _Roof:
    roofs = context.roofs
    if roofs.why:
        return _Roof(None, "unknown", "", "", roofs.why)
    if work is None:
        why = "its nodes are unknown" if layer.counts is None else layer.counts.why_flop
        return _Roof(None, "unknown", "", "", why or "a node of it has no count")
    peak = roofs.peak(precision, on_tensor_cores=_for_tensor_cores(layer, scores, precision))
    if work and peak is None:
        return _Roof(None, "unknown", "", "", f"no {precision or 'such'} peak is known")
    if traffic is None or not roofs.levels:
        why = "no bandwidth is known" if traffic is not None else "its bytes are unknown"
        return _Roof(None, "unknown", "", "", why)
    name, rate = peak if work and peak is not None else ("", 1.0)
    compute_s = work / rate if name else 0.0
    is_counted = layer.counts is not None and layer.counts.traffic_bytes is not None
    # Bytes that a profiler counted at memory did not come from a cache.
    level = roofs.levels[0] if is_counted else _level(roofs.levels, traffic, layer.time_s)
    memory_s = traffic / level.bytes_per_s
    roof_s = max(compute_s, memory_s)
    bound: LayerBound = "compute" if compute_s > memory_s else "memory"
    launch_s, time_s = context.launch_s or 0.0, layer.time_s or 0.0
    if launch_s > roof_s and 0 < time_s < _MOST_LAUNCHES * launch_s:
        bound = "launch"
    return _Roof(roof_s, bound, name, level.name, "")


def _for_tensor_cores(layer: EngineLayer, scores: Sequence[LayerScore], precision: str) -> bool:
    """Whether tensor cores could run its products; fp32 runs there as TF32 alone."""
    if precision == "fp32":
        return False
    heavy = _heaviest(scores)
    if heavy is None:
        return layer.counts is not None and layer.counts.unit == "tensor core"
    if not heavy.macs:
        return False
    # The network may be scored in another precision than the engine's.
    return heavy.unit == "tensor core" or (
        layer.precision not in {"", heavy.precision} and precision in PRECISIONS
    )


def _level(levels: Sequence[MemoryRoof], traffic: float, time_s: float | None) -> MemoryRoof:
    """DRAM, or the first cache that allows the measured time and can hold what moves."""
    for level in levels:
        fits = level.capacity_bytes is None or traffic <= level.capacity_bytes
        allows = not time_s or traffic / level.bytes_per_s <= time_s * _ABOVE
        if allows and (fits or level is levels[0]):
            return level
    return levels[0]


def _remarks(
    layer: EngineLayer,
    scores: Sequence[LayerScore],
    work: float | None,
    roof: _Roof,
    context: _Context,
) -> list[str]:
    remarks = []
    counts = layer.counts
    if scores and work and counts is not None and counts.flop is not None:
        ratio = counts.flop / work
        if abs(ratio - 1) > AGREE:
            remarks.append(f"counted {ratio:.3g} times its scored FLOP")
    tensor = f"{layer.precision} tensor"
    if (
        roof.peak == tensor
        and _is_on_cuda_cores(layer)
        and (work or 0) >= context.least_flop
        and scores
    ):
        remarks.append("its kernel uses no tensor cores")
    if roof.roof_s is not None and layer.time_s and roof.roof_s > _ABOVE * layer.time_s:
        remarks.append(
            "faster than its roof: counted at other clocks than the roof's?"
            if counts is not None and roof.bound == "memory"
            else "faster than its roof: bytes stay in a cache"
            if roof.bound == "memory"
            else "faster than its roof: an algorithm with fewer FLOP, or another precision"
        )
    return remarks


def _is_on_cuda_cores(layer: EngineLayer) -> bool:
    """Whether its work ran on CUDA cores, as counted, or else as its kernel is called."""
    if layer.counts is not None and layer.counts.unit:
        return layer.counts.unit == "CUDA core"
    return _ON_CUDA_CORES.search(layer.tactic) is not None
