"""ONNX Runtime's operators that move, pick, make or measure elements.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import INT32, INT64, STRING
from mansard.estimator.operators.contrib.parts import (
    as_standard,
    cost_of,
    microsoft,
    microsoft_shape,
    required,
    standard_specs,
)
from mansard.estimator.operators.costs import (
    handle_text,
    move,
    no_work,
    per_element,
    pick,
    picked_bytes,
    reads_only,
    sort_comparisons,
    view,
)
from mansard.estimator.operators.registry import Specs
from mansard.estimator.operators.resampling import interpolation_cost, weights_cost
from mansard.estimator.operators.shapes import check_rank, known_int, known_ints, same
from mansard.estimator.operators.transforms import fft_flop
from mansard.estimator.tensors import Node


def _as_standard_shape(node: Node) -> Specs:
    return standard_specs(as_standard(node, node.op_type))


microsoft("Trilu", shape=_as_standard_shape, not_weights=(1, 2))(move)
microsoft("GatherND", shape=_as_standard_shape, not_weights=(1, 2, 3), reads=picked_bytes)(pick)


@microsoft_shape("ExpandDims", cost=view, is_view=True, not_weights=(1,))
def _expand_dims_shape(node: Node) -> Specs:
    """A dimension of 1 more; an axis from the end counts those of the output."""
    data, axis = node.input(0), known_int(node, 1)
    node.input(1)
    if axis is None:
        return [(data.dtype, (None,) * (data.rank + 1))]
    if not -data.rank - 1 <= axis <= data.rank:
        raise node.error(f"axis {axis} is outside {data.rank + 1} dimensions")
    axis %= data.rank + 1
    return [(data.dtype, (*data.shape[:axis], 1, *data.shape[axis:]))]


@microsoft_shape("Pad", cost=move, not_weights=(1, 2))
def _pad_shape(node: Node) -> Specs:
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


@microsoft_shape(
    "Range",
    cost=per_element(2),
    not_weights=(0, 1, 2),
)
def _range_shape(node: Node) -> Specs:
    """As ONNX's Range; the step is 1 where it is left out."""
    start, limit = node.value(0).first, node.value(1).first
    step = node.value(2).first if node.has(2) else 1
    if not step:
        raise node.error("has a step of zero")
    return [(node.input(0).dtype, (max(math.ceil((limit - start) / step), 0),))]


def _unique_shape(node: Node) -> Specs:
    """What differs, which one each element is, how often each is."""
    import numpy as np

    data = check_rank(node, 0, 1)
    n = None if data.value is None else int(np.unique(data.value.array).size)
    return [(data.dtype, (n,)), (INT64, data.shape), (INT64, (n,))]


@microsoft("Unique", shape=_unique_shape)
def unique(node: Node) -> Cost:
    """n·⌈log2 n⌉ + n - 1 comparisons."""
    n = node.input(0).n_elements
    return Cost(simple=sort_comparisons(n) + max(n - 1, 0))


@microsoft_shape(
    "UnfoldTensor",
    cost=no_work("No work; overlapping windows are written in full."),
)
def _unfold_shape(node: Node) -> Specs:
    """Windows along one dimension, which become a new last one."""
    data, size, step = node.input(0), required(node, "size"), node.integer("step", 1)
    axis = data.axis(node.integer("dim", -1))
    if step < 1 or size > data.shape[axis]:
        raise node.error(f"windows of {size} in steps of {step} over {data.shape[axis]} elements")
    n = (data.shape[axis] - size) // step + 1
    return [(data.dtype, (*data.shape[:axis], n, *data.shape[axis + 1 :], size))]


@microsoft_shape("TorchEmbedding", cost=pick, not_weights=(1, 2, 3), reads=picked_bytes)
def _embedding_shape(node: Node) -> Specs:
    table, indices = check_rank(node, 0, 2), node.input(1)
    return [(table.dtype, (*indices.shape, table.shape[1]))]


def _crop_and_resize_shape(node: Node) -> Specs:
    """[regions, channels, height, width]; the last two are values of an input."""
    data, regions = check_rank(node, 0, 4), check_rank(node, 1, 2)
    size: Sequence[int | None] = known_ints(node, 3) or (None, None)
    if len(size) != 2:
        raise node.error(f"crop_size {list(size)} is not a height and width")
    return [(data.dtype, (regions.shape[0], data.shape[1], *size))]


def _sampled(node: Node, precision: Precision | None) -> int:
    """Of the images at most the neighbours of all samples."""
    taps = 1 if node.text("mode", "bilinear") == "nearest" else 4
    return reads_only(node, precision, {0: taps * node.output.n_elements})


@microsoft("CropAndResize", shape=_crop_and_resize_shape, not_weights=(1, 2, 3), reads=_sampled)
def crop_and_resize(node: Node) -> Cost:
    """7 operations for each element (nearest 0), 4 and the weights for each point."""
    mode = node.text("mode", "bilinear")
    taps = 1 if mode == "nearest" else 2
    regions, _, height, width = node.output.shape
    point = weights_cost(mode, 2) + Cost(simple=4)
    each = interpolation_cost(taps, 2)
    return point * (regions * height * width) + each * node.output.n_elements


@microsoft_shape("GridSample", cost=cost_of("GridSample"), not_weights=(1,))
def _grid_sample_shape(node: Node) -> Specs:
    data, grid = check_rank(node, 0, 4), check_rank(node, 1, 4)
    return [(data.dtype, (*data.shape[:2], *grid.shape[1:3]))]


def _distances_shape(node: Node) -> Specs:
    first, second = node.input(0), node.input(1)
    if first.rank != 2 or second.rank != 2 or first.shape[1] != second.shape[1]:
        raise node.error(f"{list(first.shape)} and {list(second.shape)} hold no equal vectors")
    return [(first.dtype, (first.shape[0], second.shape[0]))]


@microsoft("CDist", shape=_distances_shape)
def distances(node: Node) -> Cost:
    """3·n - 1 operations for each pair of n elements; a root if requested."""
    n, width = node.output.n_elements, node.input(0).shape[1]
    roots = n if node.text("metric", "sqeuclidean") == "euclidean" else 0
    return Cost(simple=n * max(3 * width - 1, 0), functions=roots)


def _signal_axes(node: Node) -> int:
    """Trailing dimensions that a transform runs over."""
    n = node.integer("signal_ndim", 1)
    data = node.input(0)
    if not 0 < n <= data.rank - (node.op_type == "Irfft"):
        raise node.error(f"a signal of {n} dimensions in {list(data.shape)}")
    return n


def real_fourier(node: Node) -> Cost:
    """2.5·n·log2 n operations for n points; the inverse divides its output."""
    is_inverse = node.op_type == "Irfft"
    real = node.output if is_inverse else node.input(0)
    points = math.prod(real.shape[real.rank - _signal_axes(node) :])
    transforms = real.n_elements // max(points, 1)
    work = transforms * fft_flop(points, True)
    return Cost(simple=work + (real.n_elements if is_inverse else 0))


@microsoft_shape("Rfft", cost=real_fourier)
def _rfft_shape(node: Node) -> Specs:
    """n real numbers become n / 2 + 1 pairs of real and imaginary part."""
    data = node.input(0)
    _signal_axes(node)
    return [(data.dtype, (*data.shape[:-1], data.shape[-1] // 2 + 1, 2))]


@microsoft_shape("Irfft", cost=real_fourier)
def _irfft_shape(node: Node) -> Specs:
    data = node.input(0)
    _signal_axes(node)
    if data.shape[-1] != 2:
        raise node.error(f"{list(data.shape)} does not end in real and imaginary part")
    return [(data.dtype, (*data.shape[:-2], 2 * (data.shape[-2] - 1)))]


def _warp_shape(node: Node) -> Specs:
    """The path [2, points]; how long it is depends on the costs."""
    check_rank(node, 0, 2, 3)
    return [(INT32, (2, None))]


@microsoft("DynamicTimeWarping", shape=_warp_shape)
def time_warp(node: Node) -> Cost:
    """Two comparisons and an addition for each cost."""
    return Cost(simple=3 * node.input(0).n_elements)


def _block_repeats_shape(node: Node) -> Specs:
    node.input(0)
    return [same(node.input(1))]


@microsoft("NGramRepeatBlock", shape=_block_repeats_shape, not_weights=(0,))
def block_repeats(node: Node) -> Cost:
    """n - 1 comparisons for each position."""
    ids, n = node.input(0), required(node, "ngram_size")
    starts = max(ids.shape[1] - n + 1, 0)
    return Cost(simple=ids.shape[0] * starts * (n - 1))


def hash_ngrams(node: Node) -> Cost:
    """2·n - 1 operations a token for each length n; a hash 1, an offset 1."""
    longest, heads = required(node, "max_ngram_size"), required(node, "n_head_per_ngram")
    mixing = longest * longest - 1  # 2·n - 1, summed over n from 2
    offsets = node.has(4 if node.op_type == "NGramHashMapping" else 5)
    hashes = (longest - 1) * heads * (1 + offsets)
    return Cost(simple=node.input(0).n_elements * (mixing + hashes))


@microsoft_shape("NGramHashMapping", cost=hash_ngrams)
def _hash_ngrams_shape(node: Node) -> Specs:
    """[batch, steps, hashes], and the last tokens for the next call."""
    ids, n = check_rank(node, 0, 2), required(node, "max_ngram_size")
    hashes = (n - 1) * required(node, "n_head_per_ngram")
    return [(ids.dtype, (*ids.shape, hashes)), (ids.dtype, (ids.shape[0], n - 1))]


@microsoft_shape("VarlenNGramHashMapping", cost=hash_ngrams)
def _hash_packed_ngrams_shape(node: Node) -> Specs:
    """[tokens, hashes]; last tokens and their segments, and what was captured."""
    ids, n = check_rank(node, 0, 1), required(node, "max_ngram_size")
    batch = node.input(3).n_elements - 1
    hashes = (n - 1) * required(node, "n_head_per_ngram")
    captured = node.integer("state_update_capacity", 0)
    return [
        (ids.dtype, (*ids.shape, hashes)),
        (ids.dtype, (batch, n - 1)),
        (node.input(3).dtype, (batch, n - 1)),
        (ids.dtype, (batch, captured, n - 1)),
    ]


def _detect_bifurcation_shape(node: Node) -> Specs:
    """The tokens after merging, and where their end stands in the source."""
    tokens = node.input(1)
    return [(tokens.dtype, (None,)), (tokens.dtype, ())]


@microsoft("BifurcationDetector", shape=_detect_bifurcation_shape)
def detect_bifurcation(node: Node) -> Cost:
    """1 comparison for each predicted token, n for each searched position of an n-gram."""
    predicted = node.optional(3)
    shortest, longest = node.integer("min_ngram_size", 1), node.integer("max_ngram_size", 3)
    lengths = max(longest - shortest + 1, 0) * (shortest + longest) // 2
    searched = node.input(0).n_elements * lengths
    return Cost(simple=searched + (0 if predicted is None else predicted.n_elements))


@microsoft_shape("Tokenizer", cost=handle_text)
def _tokenize_shape(node: Node) -> Specs:
    check_rank(node, 0, 1, 2)
    return [(STRING, (*node.input(0).shape, None))]


def _embed_words_shape(node: Node) -> Specs:
    """A vector for each word [..., letters]: as many numbers as there are filters."""
    words, filters = node.input(0), check_rank(node, 1, 4)
    return [(filters.dtype, (*words.shape[:-1], filters.shape[0]))]


@microsoft("WordConvEmbedding", shape=_embed_words_shape, operands=(1, 3))
def embed_words(node: Node) -> Cost:
    """window · width multiply-adds, 2 and a function for each word, window and filter."""
    words, filters = node.input(0), node.input(1)
    n_filters, window, width = filters.shape[0], filters.shape[2], filters.shape[3]
    n_words = words.n_elements // max(words.shape[-1], 1)
    n = n_words * max(words.shape[-1] - window + 1, 0) * n_filters
    return Cost(macs=n * window * width, simple=2 * n, functions=n)
