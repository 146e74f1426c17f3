"""ONNX Runtime's indexers: which keys a sparse attention may read.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
(SparseAttentionIndexer, PackedSparseAttentionIndexer)
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import INT32
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


def capacity(node: Node) -> int:
    """How many keys are selected for a query at most."""
    if is_blockwise(node):
        return required(node, "index_topk")
    return required(node, "token_budget") + required(node, "compress_ratio") - 1


def is_blockwise(node: Node) -> bool:
    """Whether the entries are compressed blocks ("csa") and not tokens ("qsa")."""
    mode = node.text("policy_mode", "")
    if mode not in ("csa", "qsa"):
        raise node.error(f"attribute 'policy_mode' = {mode!r} does not exist")
    return mode == "csa"


def compressed(node: Node) -> tuple[int, int]:
    """(blocks that this call closes, tokens that stay behind in the buffer)."""
    ratio, buffer = required(node, "compress_ratio"), node.optional(13)
    held = 0 if buffer is None else buffer.shape[2]
    n_new = node.input(0).shape[1]
    # A closed window stays in the buffer: the next one overlaps it.
    is_open = held >= ratio
    waiting = held - ratio if is_open else held
    closed = (waiting + n_new) // ratio
    left = (waiting + n_new) % ratio
    return closed, left + (ratio if is_open or closed else 0)


@rule("SparseAttentionIndexer", domain=MICROSOFT)
def _index(node: Node) -> Sequence[Spec]:
    """[batch, queries, selected]; the keys so far, and what is not compressed yet."""
    query, past = node.input(0), node.input(7)
    n_entries, left = query.shape[1], 0
    if is_blockwise(node):
        n_entries, left = compressed(node)
    grown = 0 if node.has(12) else n_entries
    keys = (past.shape[0], past.shape[1] + grown, past.shape[2])
    specs: list[Spec] = [
        (INT32, (*query.shape[:2], capacity(node))),
        (past.dtype, keys),
    ]
    if node.has(13):
        buffer = node.input(13)
        specs.append((buffer.dtype, (*buffer.shape[:2], left, buffer.shape[3])))
    return specs


@rule("PackedSparseAttentionIndexer", domain=MICROSOFT)
def _index_packed(node: Node) -> Sequence[Spec]:
    """[tokens, selected], how many of them, and the states as they came in."""
    query, keys = node.input(0), node.input(12)
    batch, _, width = keys.shape
    gates = node.optional(14)
    captured = node.integer("state_update_capacity", 0)
    return [
        (INT32, (query.shape[0], capacity(node))),
        (INT32, (query.shape[0],)),
        same(keys),
        same(node.input(13)),
        same(node.input(13) if gates is None else gates),
        same(node.input(15)),
        (keys.dtype, (batch, captured, width)),
    ]
