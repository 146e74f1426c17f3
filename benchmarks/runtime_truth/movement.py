"""Bytes that a kernel's real tensors have, by the conventions of docs/understand/scoring.md.

Each distinct input is read once, each output that has a name is written once. A view
moves nothing; an operator that picks reads of its table as much as it writes; a node that
holds graphs moves nothing itself, its bodies' kernels do.
"""

from __future__ import annotations

import math

from onnx import NodeProto

from mansard.inference.preparing.labelling import bodies

from .profiling import Kernel, RealTensor
from .tables import table_bytes

VIEWS = frozenset({"BitCast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
# Sequences hold tensors; nothing moves when one is put in or taken out.
HOLDING = frozenset(
    {"SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert"}
    | {"SequenceLength", "Optional", "OptionalGetElement", "OptionalHasElement"}
)
# The profiler shows no sequences and maps: as much is in them as comes out or goes in.
_WRITES_UNSEEN = frozenset({"SplitToSequence", "ZipMap"})
_READS_UNSEEN = frozenset({"ConcatFromSequence"})
PICKING = frozenset(
    {"ArrayFeatureExtractor", "Compress", "Gather", "GatherElements", "GatherND", "Slice"}
)
# Tables of which each token reads one row: their first and last input, and that of the tokens.
_TABLES = {"EmbedLayerNormalization": (2, 5, 0), "GroupQueryAttention": (7, 9, 0)}
_LIKE = frozenset({"RandomNormalLike", "RandomUniformLike"})


def convention(node: NodeProto) -> str:
    """Why ``node`` moves less than its tensors hold; empty where it does not."""
    if any(True for _ in bodies(node)):
        return "holders of graphs"
    if node.op_type in VIEWS:
        return "views"
    if node.op_type in HOLDING:
        return "sequences"
    return "picks" if node.op_type in PICKING else ""


def tensor_bytes(node: NodeProto, kernel: Kernel) -> int:
    """Every distinct input and every output, whole: no convention but that."""
    seen = sum(one.n_bytes for one in (*_distinct(node, kernel), *kernel.outputs))
    if node.op_type in _WRITES_UNSEEN:
        return seen + kernel.inputs[0].n_bytes
    return seen + kernel.outputs[0].n_bytes if node.op_type in _READS_UNSEEN else seen


def moved_bytes(node: NodeProto, kernel: Kernel) -> int:
    """What the conventions leave of ``tensor_bytes``."""
    if convention(node) in {"views", "sequences", "holders of graphs"}:
        return 0
    whole = tensor_bytes(node, kernel)
    if kernel.inputs:
        whole += table_bytes(node, kernel.inputs[0].shape)
    if node.op_type in PICKING:
        table, result = kernel.inputs[0].n_bytes, kernel.outputs[0].n_bytes
        return whole - table + min(table, result)
    if node.op_type in _TABLES:
        return whole - _unread(node, kernel)
    if node.op_type == "CastLike":  # of the second input only the type is of interest
        return whole - kernel.inputs[1].n_bytes
    if node.op_type in _LIKE:  # of the input only the shape
        return whole - kernel.inputs[0].n_bytes
    return whole


def _unread(node: NodeProto, kernel: Kernel) -> int:
    """Bytes of tables that no token asks for: as many rows are read as there are tokens."""
    given = dict(zip([name for name in node.input if name], kernel.inputs, strict=True))
    start, end, tokens_at = _TABLES[node.op_type]
    n_tokens = math.prod(given[node.input[tokens_at]].shape[:2])
    tables = [given[name] for name in node.input[start:end] if name]
    return sum(
        max(0, table.shape[0] - n_tokens) * table.n_bytes // table.shape[0] for table in tables
    )


def _distinct(node: NodeProto, kernel: Kernel) -> tuple[RealTensor, ...]:
    names = [name for name in node.input if name]
    if len(names) != len(kernel.inputs):
        return kernel.inputs  # a sequence or an absent optional among them: no telling which
    return tuple(dict(zip(names, kernel.inputs, strict=True)).values())
