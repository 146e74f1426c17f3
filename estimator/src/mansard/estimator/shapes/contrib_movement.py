"""ONNX Runtime's operators that move, pick, make or measure elements.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.estimator.element_types import INT32, INT64, STRING
from mansard.estimator.shapes.checks import check_rank, known_int, known_ints
from mansard.estimator.shapes.contrib_parts import MICROSOFT, as_standard, required, standard_specs
from mansard.estimator.shapes.elementwise import same
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node


@rule("GatherND", "Trilu", domain=MICROSOFT)
def _as_standard(node: Node) -> Sequence[Spec]:
    return standard_specs(as_standard(node, node.op_type))


@rule("ExpandDims", domain=MICROSOFT)
def _expand_dims(node: Node) -> Sequence[Spec]:
    """A dimension of 1 more; an axis from the end counts those of the output."""
    data, axis = node.input(0), known_int(node, 1)
    node.input(1)
    if axis is None:
        return [(data.dtype, (None,) * (data.rank + 1))]
    if not -data.rank - 1 <= axis <= data.rank:
        raise node.error(f"axis {axis} is outside {data.rank + 1} dimensions")
    axis %= data.rank + 1
    return [(data.dtype, (*data.shape[:axis], 1, *data.shape[axis:]))]


@rule("Pad", domain=MICROSOFT)
def _pad(node: Node) -> Sequence[Spec]:
    """As ONNX's Pad; the pads may stand in a matrix of one row."""
    data, pads = node.input(0), known_ints(node, 1)
    if pads is None:
        node.input(1)
        return [(data.dtype, (None,) * data.rank)]
    if len(pads) != 2 * data.rank:
        raise node.error(f"pads {list(pads)} do not fit {list(data.shape)}")
    n = data.rank
    shape = tuple(size + pads[i] + pads[i + n] for i, size in enumerate(data.shape))
    if min(shape, default=0) < 0:
        raise node.error(f"pads {list(pads)} leave less than nothing of {list(data.shape)}")
    return [(data.dtype, shape)]


@rule("Range", domain=MICROSOFT)
def _range(node: Node) -> Sequence[Spec]:
    """As ONNX's Range; the step is 1 where it is left out."""
    start, limit = node.value(0).first, node.value(1).first
    step = node.value(2).first if node.has(2) else 1
    if not step:
        raise node.error("has a step of zero")
    return [(node.input(0).dtype, (max(math.ceil((limit - start) / step), 0),))]


@rule("Unique", domain=MICROSOFT)
def _unique(node: Node) -> Sequence[Spec]:
    """What differs, which one each element is, how often each is."""
    import numpy as np

    data = node.input(0)
    check_rank(node, 0, 1)
    n = None if data.value is None else int(np.unique(data.value.array).size)
    return [(data.dtype, (n,)), (INT64, data.shape), (INT64, (n,))]


@rule("UnfoldTensor", domain=MICROSOFT)
def _unfold(node: Node) -> Sequence[Spec]:
    """Windows along one dimension, which become a new last one."""
    data, size, step = node.input(0), required(node, "size"), node.integer("step", 1)
    axis = data.axis(node.integer("dim", -1))
    if step < 1 or size > data.shape[axis]:
        raise node.error(f"windows of {size} in steps of {step} over {data.shape[axis]} elements")
    n = (data.shape[axis] - size) // step + 1
    return [(data.dtype, (*data.shape[:axis], n, *data.shape[axis + 1 :], size))]


@rule("TorchEmbedding", domain=MICROSOFT)
def _embedding(node: Node) -> Sequence[Spec]:
    table, indices = node.input(0), node.input(1)
    check_rank(node, 0, 2)
    return [(table.dtype, (*indices.shape, table.shape[1]))]


@rule("CropAndResize", domain=MICROSOFT)
def _crop_and_resize(node: Node) -> Sequence[Spec]:
    """[regions, channels, height, width]; the last two are values of an input."""
    data, regions = node.input(0), node.input(1)
    check_rank(node, 0, 4)
    check_rank(node, 1, 2)
    size: Sequence[int | None] = known_ints(node, 3) or (None, None)
    if len(size) != 2:
        raise node.error(f"crop_size {list(size)} is no height and width")
    return [(data.dtype, (regions.shape[0], data.shape[1], *size))]


@rule("GridSample", domain=MICROSOFT)
def _grid_sample(node: Node) -> Sequence[Spec]:
    data, grid = node.input(0), node.input(1)
    check_rank(node, 0, 4)
    check_rank(node, 1, 4)
    return [(data.dtype, (*data.shape[:2], *grid.shape[1:3]))]


@rule("CDist", domain=MICROSOFT)
def _distances(node: Node) -> Sequence[Spec]:
    first, second = node.input(0), node.input(1)
    if first.rank != 2 or second.rank != 2 or first.shape[1] != second.shape[1]:
        raise node.error(f"{list(first.shape)} and {list(second.shape)} hold no equal vectors")
    return [(first.dtype, (first.shape[0], second.shape[0]))]


def signal_axes(node: Node) -> int:
    """Trailing dimensions that a transform runs over."""
    n = node.integer("signal_ndim", 1)
    data = node.input(0)
    if not 0 < n <= data.rank - (node.op_type == "Irfft"):
        raise node.error(f"a signal of {n} dimensions in {list(data.shape)}")
    return n


@rule("Rfft", domain=MICROSOFT)
def _rfft(node: Node) -> Sequence[Spec]:
    """n real numbers become n / 2 + 1 pairs of real and imaginary part."""
    data = node.input(0)
    signal_axes(node)
    return [(data.dtype, (*data.shape[:-1], data.shape[-1] // 2 + 1, 2))]


@rule("Irfft", domain=MICROSOFT)
def _irfft(node: Node) -> Sequence[Spec]:
    data = node.input(0)
    signal_axes(node)
    if data.shape[-1] != 2:
        raise node.error(f"{list(data.shape)} does not end in real and imaginary part")
    return [(data.dtype, (*data.shape[:-2], 2 * (data.shape[-2] - 1)))]


@rule("DynamicTimeWarping", domain=MICROSOFT)
def _warp(node: Node) -> Sequence[Spec]:
    """The path [2, points]; how long it is depends on the costs."""
    check_rank(node, 0, 2, 3)
    return [(INT32, (2, None))]


@rule("NGramRepeatBlock", domain=MICROSOFT)
def _block_repeats(node: Node) -> Sequence[Spec]:
    node.input(0)
    return [same(node.input(1))]


@rule("NGramHashMapping", domain=MICROSOFT)
def _hash_ngrams(node: Node) -> Sequence[Spec]:
    """[batch, steps, hashes], and the last tokens for the next call."""
    ids, n = node.input(0), required(node, "max_ngram_size")
    check_rank(node, 0, 2)
    hashes = (n - 1) * required(node, "n_head_per_ngram")
    return [(ids.dtype, (*ids.shape, hashes)), (ids.dtype, (ids.shape[0], n - 1))]


@rule("VarlenNGramHashMapping", domain=MICROSOFT)
def _hash_packed_ngrams(node: Node) -> Sequence[Spec]:
    """[tokens, hashes]; last tokens and their segments, and what was captured."""
    ids, n = node.input(0), required(node, "max_ngram_size")
    check_rank(node, 0, 1)
    batch = node.input(3).n_elements - 1
    hashes = (n - 1) * required(node, "n_head_per_ngram")
    captured = node.integer("state_update_capacity", 0)
    return [
        (ids.dtype, (*ids.shape, hashes)),
        (ids.dtype, (batch, n - 1)),
        (node.input(3).dtype, (batch, n - 1)),
        (ids.dtype, (batch, captured, n - 1)),
    ]


@rule("BifurcationDetector", domain=MICROSOFT)
def _detect_bifurcation(node: Node) -> Sequence[Spec]:
    """The tokens after merging, and where their end stands in the source."""
    tokens = node.input(1)
    return [(tokens.dtype, (None,)), (tokens.dtype, ())]


@rule("Tokenizer", domain=MICROSOFT)
def _tokenize(node: Node) -> Sequence[Spec]:
    check_rank(node, 0, 1, 2)
    return [(STRING, (*node.input(0).shape, None))]


@rule("WordConvEmbedding", domain=MICROSOFT)
def _embed_words(node: Node) -> Sequence[Spec]:
    """A vector for each word [..., letters]: as many numbers as there are filters."""
    words, filters = node.input(0), node.input(1)
    check_rank(node, 1, 4)
    return [(filters.dtype, (*words.shape[:-1], filters.shape[0]))]
