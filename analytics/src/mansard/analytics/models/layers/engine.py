"""Layers of an engine from files of tools or from measurements, in one form.

A profile has times by name, the engine's description has tensors, types and kernels by the same
names. Names that several layers have are matched by their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Literal

from mansard.analytics.data.published.cells import LayerRow, LayerTensor
from mansard.analytics.models.layers.network import OpClass
from mansard.core.formats.tensorrt import take_apart
from mansard.core.precision import PRECISIONS
from mansard.core.records import LayerTime

# "reformat": a copy into another format or type. "engine": anything else without a node.
EngineLayerKind = Literal["layer", "region", "reformat", "engine"]

_REFORMAT = re.compile(
    r"^Reformatting CopyNode|(?:input|output) reformatter|^Reformatted "
    r"|copy finish$|nvm$|HostCopy$",
    re.IGNORECASE,
)
_OWN_TYPES = frozenset({"shape_call", "NoOp", "Constant"})  # neither work nor traffic
_ORT_REFORMATS = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
# What engines call operators. The order matters: a "MaxPool" may have "conv" in its path.
_CLASSES: tuple[tuple[re.Pattern[str], OpClass], ...] = (
    (re.compile(r"quantizelinear|quantlinearnode", re.I), "quantiser"),
    (re.compile(r"pool|^mean$|reducemean|^reduce$", re.I), "pool"),
    (re.compile(r"softmax", re.I), "softmax"),
    (
        re.compile(r"conv(?!ert)|gemm|matmul|matrixmultiply|fullyconnected|attention", re.I),
        "product",
    ),
)
_MIXED_TYPES = frozenset({"kgen", "PointWiseV2", "PointWise", "Myelin", "DLA", "Reformat"})


@dataclass(frozen=True)
class LayerCounts:
    """What a profiler counted in all launches of a layer; ``why_…``: why a count is None.

    ``traffic_bytes``: at memory. ``unit``: the unit that did most of the work, as in WorkCount.
    """

    flop: float | None
    traffic_bytes: float | None
    unit: str
    why_flop: str = ""
    why_bytes: str = ""


@dataclass(frozen=True, kw_only=True)
class EngineLayer:
    """One layer as an engine ran it.

    ``parts``: names of nodes in it. ``nodes``: the nodes of the network that it runs, where they
    were traced (``LayerTime.nodes``); None where names and shapes decide. ``time_s``: in one call
    of the network; None where it was not timed.
    """

    name: str
    kind: EngineLayerKind
    parts: tuple[str, ...] = ()
    op_type: str = ""
    reads: tuple[LayerTensor, ...] = ()
    writes: tuple[LayerTensor, ...] = ()
    n_weights: int | None = None
    precision: str = ""
    weight_precision: str = ""
    tactic: str = ""
    time_s: float | None = None
    nodes: tuple[int, ...] | None = None
    is_traced: bool = False
    counts: LayerCounts | None = None  # of a tool that counts

    @cached_property
    def op_class(self) -> OpClass:
        """The heaviest operator in it, by its type, else by the names of its nodes."""
        texts = [] if self.op_type in _MIXED_TYPES else [self.op_type]
        texts += [_last_word(part) for part in self.parts or (self.name,)]
        classes = [word for text in texts if text and (word := _class_in(text))]
        if texts and self.op_type and self.op_type not in _MIXED_TYPES:
            return classes[0] if classes and _class_in(self.op_type) else "other"
        for wanted in ("product", "softmax", "pool", "quantiser"):
            if wanted in classes:
                return wanted
        return "other"

    @property
    def n_read(self) -> int | None:
        """Elements of the first tensor that it reads."""
        return self.reads[0].n_elements if self.reads else None

    @property
    def n_written(self) -> int | None:
        """Elements of the first tensor that it writes."""
        return self.writes[0].n_elements if self.writes else None

    @property
    def traffic_bytes(self) -> float | None:
        """The tensors that it reads and writes and its weights; None where one is not described.

        Channels that a format adds are not counted.
        """
        if not self.reads or not self.writes:
            return None
        # A tensor that is read twice moves once; those of ONNX Runtime have no names.
        named = {tensor.name: tensor for tensor in (*self.reads, *self.writes) if tensor.name}
        unnamed = [tensor for tensor in (*self.reads, *self.writes) if not tensor.name]
        sizes = [_bytes(tensor) for tensor in (*named.values(), *unnamed)]
        if any(size is None for size in sizes):
            return None
        weights = PRECISIONS.get(self.weight_precision)
        stored = (self.n_weights or 0) * weights.n_bits / 8 if weights else 0.0
        return sum(filter(None, sizes)) + stored


def _bytes(tensor: LayerTensor) -> float | None:
    width, n_elements = PRECISIONS.get(tensor.precision), tensor.n_elements
    return None if width is None or n_elements is None else n_elements * width.n_bits / 8


def _last_word(name: str) -> str:
    """The end of a path of names: ``/features/features.0/Conv`` is a Conv."""
    return name.rstrip("/").rpartition("/")[2]


def _class_in(text: str) -> OpClass | None:
    return next((op_class for pattern, op_class in _CLASSES if pattern.search(text)), None)


def layers_of_rows(
    timed: Sequence[LayerRow], described: Sequence[LayerRow] = ()
) -> tuple[EngineLayer, ...]:
    """The layers of a profile, each with the description that has its name, where there is one."""
    return tuple(map(_layer, _with_descriptions(timed, described)))


def n_described(timed: Sequence[LayerRow], described: Sequence[LayerRow]) -> int:
    """The number of layers of a profile whose names the description has."""
    names = {row.name for row in described}
    return sum(row.name in names for row in timed)


def _with_descriptions(
    timed: Sequence[LayerRow], described: Sequence[LayerRow]
) -> Iterator[LayerRow]:
    of_name: dict[str, list[LayerRow]] = {}
    for row in described:
        of_name.setdefault(row.name, []).append(row)
    for row in timed:
        alike = of_name.get(row.name)
        if not alike:
            yield row
            continue
        known = alike.pop(0) if len(alike) > 1 else alike[0]
        yield replace(
            known, mean_s=row.mean_s, median_s=row.median_s, share=row.share, runs=row.runs
        )


def _layer(row: LayerRow) -> EngineLayer:
    fused = take_apart(row.name, row.metadata, is_copy=row.is_copy)
    kind: EngineLayerKind = fused.kind
    op_type = row.op_type or ""
    if fused.kind == "engine" or op_type in _ORT_REFORMATS:
        is_copy = row.is_copy or _REFORMAT.search(row.name) or op_type in _ORT_REFORMATS
        kind = "reformat" if is_copy else "engine"
    if kind != "reformat" and (op_type in _OWN_TYPES or "shape_call" in row.name):
        kind = "engine"
    n_weights, weight_precision = row.n_weights, row.weight_precision or ""
    reads = row.reads
    if n_weights is None and op_type == "gemm" and len(reads) > 1:  # Myelin's: weights are a tensor
        n_weights, weight_precision = reads[1].n_elements, ""
    return EngineLayer(
        name=row.name,
        kind=kind,
        parts=fused.parts if kind in {"layer", "region"} else (),
        op_type=op_type,
        reads=reads,
        writes=row.writes,
        n_weights=n_weights,
        precision=_precision(row),
        weight_precision=weight_precision,
        tactic=row.tactic or "",
        time_s=row.time_s,
    )


def _precision(row: LayerRow) -> str:
    """The precision that it computes in: that of its weights, else of what it reads."""
    if row.weight_precision:
        return row.weight_precision
    return next((t.precision for t in row.reads if t.precision), "") or row.precision or ""


def layers_of_times(times: Sequence[LayerTime]) -> tuple[EngineLayer, ...]:
    """The layers that we timed, with the nodes that were traced."""
    return tuple(
        EngineLayer(
            name=time.name or time.op_type,
            kind="reformat"
            if time.op_type in _ORT_REFORMATS and not time.nodes
            else "layer"
            if time.nodes or time.nodes is None
            else "engine",
            op_type=time.op_type,
            tactic=time.kernel,
            time_s=median(time.seconds_s) if time.seconds_s else None,
            nodes=time.nodes,
            is_traced=True,
        )
        for time in times
    )


def batch_of(layers: Sequence[EngineLayer]) -> int | None:
    """The batch that an engine was built for: the first dimension of its input; None: not known."""
    written = {tensor.name for layer in layers for tensor in layer.writes}
    for layer in layers:
        for tensor in layer.reads:
            if tensor.name not in written and len(tensor.dimensions) > 1:
                return tensor.dimensions[0] if tensor.dimensions[0] > 0 else None
    return None


def depths(layers: Sequence[EngineLayer]) -> list[int]:
    """The most products on a way from an input to each layer; of layers without tensors 0."""
    depth_of: dict[str, int] = {}
    depths = []
    for layer in layers:
        depth = max((depth_of.get(tensor.name, 0) for tensor in layer.reads), default=0)
        depths.append(depth)
        below = depth + (layer.op_class == "product" and layer.kind == "layer")
        depth_of |= {tensor.name: below for tensor in layer.writes}
    return depths
