"""Which nodes of a network a layer of an engine is, by the layer's name.

TensorRT joins the names of what it fused: " + " and "||" between layers, ``{a,b}`` around those of
a DLA, ``{ForeignNode[a...b]}`` around all from a to b, ``PWN(a, b)`` around pointwise ones. Copies
that change a format, and layers that its parser adds, are no nodes of the network.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mansard.core.node_labels import labels_of
from mansard.core.records import LayerKind

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


def take_apart(name: str, metadata: str = "") -> FusedName:
    """The nodes in a layer's ``name``, or as its ``metadata`` of TensorRT 8.6 and later lists them.

    Never raises; takes time in proportion to the name.
    """
    name = _PROFILE.sub("", name.strip())
    if _OWN.search(name):
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
    """The labels of the network's nodes in each of the layers that an engine has.

    Of a region TensorRT may name the first and the last node alone: it has all between them that
    no other layer has. None where two regions would have the same nodes, or a name has no label.
    """
    nodes = [set(labels_of(" ".join(each.parts))) for each in names]
    named = zip(names, nodes, strict=True)
    taken = set().union(*(own for each, own in named if each.kind == "layer"))
    regions = {
        at: nodes[at] | (set(range(min(nodes[at]), max(nodes[at]) + 1)) - taken)
        for at, each in enumerate(names)
        if each.kind == "region" and nodes[at]
    }
    times = Counter(node for region in regions.values() for node in region)
    for at, region in regions.items():
        nodes[at] = region if all(times[node] == 1 for node in region) else set()
    return tuple(
        () if each.kind == "engine" else tuple(sorted(own)) or None
        for each, own in zip(names, nodes, strict=True)
    )


def _unwrapped(piece: str) -> tuple[str, str]:
    """What stands in the braces of ``piece``, and what kind of braces they are."""
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
    """The node that a name is of; None for a layer that the parser added."""
    name = member.strip()
    while name.endswith(")") and name.count(")") > name.count("("):
        name = name[:-1].rstrip()
    torch = _TORCH.match(name)
    name = torch[1] if torch else name
    return None if not name or _ADDED.match(name) else name


def _split(text: str, *separators: str) -> list[str]:
    """``text`` at separators that stand in no brackets; at all of them where these do not match."""
    pieces, start, depth, at = [], 0, 0, 0
    while at < len(text):
        letter = text[at]
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(depth - 1, 0)
        elif depth == 0:
            found = next((each for each in separators if text.startswith(each, at)), None)
            if found is not None:
                pieces.append(text[start:at])
                start = at = at + len(found)
                continue
        at += 1
    pieces.append(text[start:])
    return [piece for piece in pieces if piece.strip()]
