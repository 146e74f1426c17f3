"""Names and files of TensorRT: layers of an engine, exports of trtexec, the lines that it prints.

https://docs.nvidia.com/deeplearning/tensorrt/latest/performance/best-practices.html; fields of the
files of others are skipped. Times are in milliseconds, as in the files.

TensorRT joins the names of what it fused: " + " and "||" between layers, ``{a,b}`` around those of
a DLA, ``{ForeignNode[a...b]}`` around all from a to b, ``PWN(a, b)`` around pointwise ones. Copies
that change a format, and layers that its parser adds, are no nodes of the network.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from mansard.core.formats.onnx import labels_of
from mansard.core.records import HOST_BOUND, LayerKind


class ExportedQuery(msgspec.Struct, rename="camel"):
    """One query of ``--exportTimes``, a list of them."""

    compute_ms: float
    latency_ms: float
    h2d_ms: float | None = None
    d2h_ms: float | None = None
    in_ms: float | None = None  # what h2d_ms is called up to TensorRT 7.1
    out_ms: float | None = None
    start_enq_ms: float | None = None
    end_enq_ms: float | None = None
    end_to_end_ms: float | None = None  # up to TensorRT 8.2

    @property
    def enqueue_ms(self) -> float | None:
        """The time that the host took to enqueue it."""
        if self.start_enq_ms is None or self.end_enq_ms is None:
            return None
        return self.end_enq_ms - self.start_enq_ms

    @property
    def copy_in_ms(self) -> float | None:
        """The time to copy its inputs to the GPU."""
        return self.in_ms if self.h2d_ms is None else self.h2d_ms

    @property
    def copy_out_ms(self) -> float | None:
        """The time to copy its outputs back."""
        return self.out_ms if self.d2h_ms is None else self.d2h_ms


class ExportedLayerTime(msgspec.Struct, rename="camel"):
    """One entry of ``--exportProfile``, a list of them: the first has ``count`` alone."""

    count: int | None = None
    name: str | None = None
    time_ms: float | None = None  # over all calls
    average_ms: float | None = None
    median_ms: float | None = None  # from TensorRT 8.4
    percentage: float | None = None


class ExportedTensor(msgspec.Struct):
    """A tensor of a layer. From TensorRT 11 on its format and its type are two fields.

    ``dimensions``: without the channels that a format adds; -1 where a profile decides.
    """

    name: str = msgspec.field(default="", name="Name")
    dimensions: list[int] = msgspec.field(default_factory=list, name="Dimensions")
    both: str = msgspec.field(default="", name="Format/Datatype")
    only_format: str = msgspec.field(default="", name="Format")
    data_type: str = msgspec.field(default="", name="DataType")

    @property
    def format(self) -> str:
        """Its type and format in TensorRT's words."""
        return self.both or f"{self.data_type} {self.only_format}".strip()


class ExportedWeights(msgspec.Struct, rename="pascal"):
    """The weights of a convolution: their type in TensorRT's words, and how many."""

    type: str = ""
    count: int = 0


class ExportedLayer(msgspec.Struct, rename="pascal"):
    """A layer as the engine inspector describes it."""

    name: str
    layer_type: str | None = None
    inputs: list[ExportedTensor] = []
    outputs: list[ExportedTensor] = []
    weights: ExportedWeights | None = None
    origin: str = ""
    metadata: str = ""
    tactic_name: str | None = None
    tactic_value: str | None = None

    @property
    def is_copy(self) -> bool:
        """A quantiser is a reformat by its type and a node of the network by its origin."""
        return self.layer_type == "Reformat" and self.origin != "QDQ"

    @property
    def is_on_dla(self) -> bool:
        """Whether a DLA runs it."""
        return self.layer_type == "DLA"


class ExportedEngine(msgspec.Struct, rename="pascal"):
    """``--exportLayerInfo``, and the engine inspector's ``get_engine_information``."""

    layers: list[str | ExportedLayer]  # names alone without --profilingVerbosity=detailed

    @property
    def described(self) -> list[ExportedLayer]:
        """All layers; those without a description have only a name."""
        return [ExportedLayer(layer) if isinstance(layer, str) else layer for layer in self.layers]


# TensorRT's words for a tensor's format; the first that occurs in it counts.
_FORMATS = (
    (re.compile(r"\bBF16|BFloat16", re.I), "bf16"),
    (re.compile(r"\bFP16|\bHalf", re.I), "fp16"),
    (re.compile(r"\bFP8|E4M3", re.I), "fp8"),
    (re.compile(r"\bFP4|E2M1", re.I), "fp4"),
    (re.compile(r"\bInt8", re.I), "int8"),
    (re.compile(r"\bInt4\b", re.I), "int4"),
    (re.compile(r"\bFP32|\bFloat", re.I), "fp32"),
)

# Four digits up to 8.x, six from 10 on; a suffix names a build by others than NVIDIA.
_VERSION = re.compile(
    r"\[TensorRT v(?P<digits>\d{4,6})(?P<local>\+[\w.-]+)?\]"
    r"|TensorRT version: (?P<dotted>\d+(?:\.\d+)+)"
)


def precision_of(text: str) -> str | None:
    """The precision in TensorRT's words for a format; None where they have none."""
    return next((name for pattern, name in _FORMATS if pattern.search(text)), None)


def version_in(text: str) -> str | None:
    """ "10.3.0" of "[TensorRT v100300]" and "8.4.1" of "[TensorRT v8401]"; None without one."""
    match = _VERSION.search(text)
    if match is None:
        return None
    if match["dotted"]:
        return match["dotted"]
    digits = match["digits"]
    n_major = 1 if len(digits) == 4 else 2
    minor = digits[n_major : -2 if n_major == 2 else n_major + 1]
    patch = digits[n_major + len(minor) :]
    number = ".".join(str(int(part)) for part in (digits[:n_major], minor, patch))
    return number + (match["local"] or "")


class Switch(NamedTuple):
    """What trtexec can switch: its name among the printed options, and the flag for it."""

    option: str
    flag: str
    is_switched_on: bool  # by the flag


TRANSFERS = Switch("Data transfers", "--noDataTransfers", is_switched_on=False)
SPIN_WAIT = Switch("Spin-wait", "--useSpinWait", is_switched_on=True)
CUDA_GRAPH = Switch("CUDA Graph", "--useCudaGraph", is_switched_on=True)

# A warning, where CUDA Graph was said to be enabled before.
GRAPH_REFUSED = "The specified --useCudaGraph flag has been ignored"

# Enqueue and compute times that differ by less than this are not told apart: both are medians of
# queries. Above the second share trtexec itself warns (samples/common/sampleReporting.cpp).
_BOUND_SHARE, _DOUBTFUL_SHARE = 0.95, 0.8


def host_bound(enqueue_s: float, compute_s: float) -> str | None:
    """Why a GPU's time has gaps, in which it waited for the host; None where it has none.

    ``enqueue_s``: what the host takes to enqueue a query; ``compute_s``: the time between events
    before and after it, medians of queries. A host that is as slow as the GPU sets the pace.
    """
    if enqueue_s < _BOUND_SHARE * compute_s:
        return None
    sign = ">" if enqueue_s > compute_s else "≈"
    return f"{HOST_BOUND} (enqueue {enqueue_s * 1e3:.3g} {sign} compute {compute_s * 1e3:.3g} ms)"


def may_be_host_bound(enqueue_s: float, compute_s: float) -> bool:
    """Whether trtexec warns that the host may set the pace."""
    return enqueue_s > _DOUBTFUL_SHARE * compute_s


def least_compute(least_s: float) -> str:
    """What is known of a GPU's own time where the host bounds it."""
    return f"a lower estimate of the GPU's own time is its least, {least_s * 1e3:.3g} ms"


_ON = frozenset({"enabled", "true", "1", "yes", "on"})
# "[05/13/2026-12:54:14] [E] text"; the time is printed from 7.2 on.
_LINE = re.compile(r"(?:\[\d\d/\d\d/\d{4}-[\d:]+\] )?\[(?P<level>[A-Z])\] ?(?P<text>.*)")
_OPTION = re.compile(r"(?P<key>[A-Z][\w -]*): (?P<value>.*)")


def printed_line(raw: str) -> tuple[str, str]:
    """Level and text of a line that trtexec printed; the level is empty where it has none."""
    line = _LINE.fullmatch(raw.strip())
    return (line["level"], line["text"].strip()) if line else ("", raw.strip())


def printed_option(text: str) -> tuple[str, str] | None:
    """Name and value of an option in the text of a line; None where it holds none."""
    option = _OPTION.match(text)
    return (option["key"], option["value"].strip()) if option else None


def is_enabled(value: str) -> bool:
    """Whether a printed option is on."""
    return value.strip().casefold() in _ON


LONGEST_LAYER_NAME = 20_000  # characters; a region of a DLA may list hundreds of nodes

# TensorRT's own: copies between formats, and between the CPU and the GPU.
_OWN = re.compile(
    r"^Reformatting CopyNode|(?:input|output) reformatter \d+|^Reformatted |^shape_call"
    r"|^(?:ShapeHostToDeviceCopy|DeviceToShapeHostCopy)| copy finish$"
    r"|^(?:Signal|Wait) | (?:to|from) nvm$",
    re.IGNORECASE,
)
# Layers that the ONNX parser adds around a node.
_ADDED = re.compile(
    r"^(?:\(Unnamed Layer\*|reshape_(?:before|after)_|(?:un)?squeeze_node_(?:before|after)_"
    r"|(?:un)?squeeze_(?:before|after)_|copied_|ONNXTRT_)"
)
_PROFILE = re.compile(r" \[profile \d+\]$")
_TORCH = re.compile(r"^\[[^\[\]]*\]-\[[^\[\]]*\]-\[([^\[\]]+)\]")  # Torch-TensorRT's names
_LISTED = "[ONNX Layer: "  # a node in the metadata, up to the last bracket
_OPENING, _CLOSING = "({[", ")}]"


@dataclass(frozen=True)
class FusedName:
    """The nodes of a layer; see ``PublishedLayer.kind``."""

    parts: tuple[str, ...]
    kind: LayerKind


def take_apart(name: str, metadata: str = "", *, is_copy: bool = False) -> FusedName:
    """The nodes in a layer's ``name``, or as its ``metadata`` of TensorRT 8.6 and later lists them.

    ``is_copy``: its type says that it changes a format alone. Never raises; takes time in
    proportion to the name.
    """
    name = _PROFILE.sub("", name.strip())
    if is_copy or _OWN.search(name):
        return FusedName((), "engine")
    named = (piece.rpartition("]")[0].partition(_LISTED)[1:] for piece in metadata.split("\x1e"))
    listed = tuple(dict.fromkeys(node for mark, node in named if mark))
    if listed:
        return FusedName(listed, "layer")
    parts: list[str] = []
    is_region = False
    for piece in _split(name, " + ", "||"):
        inner, wraps = _unwrapped(piece)
        ends = inner.split("...") if wraps == "region" else [inner]
        is_region |= len(ends) > 1
        for end in ends:
            parts += [
                part
                for member in _split(end, " + ", "||", *([","] if wraps == "list" else []))
                if (part := _node(member))
            ]
    nodes = tuple(dict.fromkeys(parts))
    if is_region or name.startswith("__my"):  # Myelin's kernels have names of their own
        return FusedName(() if name.startswith("__my") else nodes, "region")
    return FusedName(nodes, "layer" if nodes else "engine")


def trace(names: Sequence[FusedName]) -> tuple[tuple[int, ...] | None, ...]:
    """The labels of the network's nodes in each layer of an engine.

    TensorRT may name only the first and the last node of a region: it has all between them that
    no other layer has. None where two regions would have the same nodes, or a name has no label.
    """
    nodes = [set(labels_of(" ".join(name.parts))) for name in names]
    named = zip(names, nodes, strict=True)
    taken = set().union(*(labels for name, labels in named if name.kind == "layer"))
    regions = {
        at: nodes[at] | (set(range(min(nodes[at]), max(nodes[at]) + 1)) - taken)
        for at, name in enumerate(names)
        if name.kind == "region" and nodes[at]
    }
    times = Counter(node for region in regions.values() for node in region)
    for at, region in regions.items():
        nodes[at] = region if all(times[node] == 1 for node in region) else set()
    return tuple(
        () if name.kind == "engine" else tuple(sorted(labels)) or None
        for name, labels in zip(names, nodes, strict=True)
    )


def _unwrapped(piece: str) -> tuple[str, str]:
    """The text inside the braces of ``piece``, and the kind of braces."""
    piece = piece.strip()
    if piece.startswith("{") and piece.endswith("}"):
        inner = piece[1:-1].strip()
        if inner.startswith("ForeignNode[") and inner.endswith("]"):
            return inner[len("ForeignNode[") : -1], "region"
        return inner, "list"
    if piece.startswith("PWN(") and piece.endswith(")"):
        return piece.replace("PWN(", ""), "list"  # what closes them is left to ``_node``
    return piece, ""


def _node(member: str) -> str | None:
    """The node that a name refers to; None for a layer that the parser added."""
    name = member.strip()
    while name.endswith(")") and name.count(")") > name.count("("):
        name = name[:-1].rstrip()
    torch = _TORCH.match(name)
    name = torch[1] if torch else name
    return None if not name or _ADDED.match(name) else name


def _split(text: str, *separators: str) -> list[str]:
    """``text`` split at separators outside brackets; at all of them if brackets do not match."""
    pieces, start, depth, at = [], 0, 0, 0
    while at < len(text):
        letter = text[at]
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(depth - 1, 0)
        elif depth == 0:
            separator = next(
                (candidate for candidate in separators if text.startswith(candidate, at)), None
            )
            if separator is not None:
                pieces.append(text[start:at])
                start = at = at + len(separator)
                continue
        at += 1
    pieces.append(text[start:])
    return [piece for piece in pieces if piece.strip()]
