"""ONNX Runtime's operators that move, pick, make or measure elements.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

import math

from mansard.core.precision import Precision
from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.contrib_parts import reads_only
from mansard.estimator.formulas.interpolation import interpolation_cost, weights_cost
from mansard.estimator.formulas.picking import sort_comparisons
from mansard.estimator.formulas.registry import register
from mansard.estimator.formulas.transforms import fft_flop
from mansard.estimator.shapes.contrib_movement import signal_axes
from mansard.estimator.shapes.contrib_parts import MICROSOFT, required
from mansard.estimator.tensors import Node


@register("ExpandDims", domain=MICROSOFT, is_view=True, not_weights=(1,))
def view(node: Node) -> Cost:  # noqa: ARG001
    """No work and no traffic."""
    return NOTHING


@register("Pad", "Trilu", domain=MICROSOFT, not_weights=(1, 2))
def move(node: Node) -> Cost:  # noqa: ARG001
    """No work; reads its inputs and writes its outputs."""
    return NOTHING


@register("UnfoldTensor", domain=MICROSOFT)
def unfold(node: Node) -> Cost:  # noqa: ARG001
    """No work; windows that overlap are written as often as they stand there."""
    return NOTHING


def _picked(node: Node, precision: Precision | None) -> int:
    return reads_only(node, precision, {0: node.output.n_elements})


@register("GatherND", "TorchEmbedding", domain=MICROSOFT, not_weights=(1, 2, 3), reads=_picked)
def pick(node: Node) -> Cost:  # noqa: ARG001
    """No work; of the first input it reads only what it picks."""
    return NOTHING


@register("Range", domain=MICROSOFT, not_weights=(0, 1, 2))
def count_up(node: Node) -> Cost:
    """start + i·delta: 2 operations for each element."""
    return Cost(simple=2 * node.output.n_elements)


@register("Unique", domain=MICROSOFT)
def unique(node: Node) -> Cost:
    """Sort by n·⌈log2 n⌉ comparisons, then compare n - 1 neighbours."""
    n = node.input(0).n_elements
    return Cost(simple=sort_comparisons(n) + max(n - 1, 0))


def _sampled(node: Node, precision: Precision | None) -> int:
    """Of the images no more than the neighbours of all samples."""
    taps = 1 if node.text("mode", "bilinear") == "nearest" else 4
    return reads_only(node, precision, {0: taps * node.output.n_elements})


@register("CropAndResize", domain=MICROSOFT, not_weights=(1, 2, 3), reads=_sampled)
def crop_and_resize(node: Node) -> Cost:
    """Bilinear: 7 operations an element from 4 neighbours; nearest: none.

    For each place of a region 4 operations for its coordinates and those of its weights.
    """
    mode = node.text("mode", "bilinear")
    taps = 1 if mode == "nearest" else 2
    regions, _, height, width = node.output.shape
    place = weights_cost(mode, 2) + Cost(simple=4)
    each = interpolation_cost(taps, 2)
    return place * (regions * height * width) + each * node.output.n_elements


@register("CDist", domain=MICROSOFT)
def distances(node: Node) -> Cost:
    """Difference, square and sum over the elements of each pair; a root where it is asked for.

    n elements take 3·n - 1 operations.
    """
    n, width = node.output.n_elements, node.input(0).shape[1]
    roots = n if node.text("metric", "sqeuclidean") == "euclidean" else 0
    return Cost(simple=n * max(3 * width - 1, 0), functions=roots)


@register("Irfft", "Rfft", domain=MICROSOFT)
def real_fourier(node: Node) -> Cost:
    """A fast real transform of n points: 2.5·n·log2 n operations (see DFT).

    The inverse divides what it writes by n.
    """
    is_inverse = node.op_type == "Irfft"
    real = node.output if is_inverse else node.input(0)
    points = math.prod(real.shape[real.rank - signal_axes(node) :])
    transforms = real.n_elements // max(points, 1)
    work = transforms * fft_flop(points, True)
    return Cost(simple=work + (real.n_elements if is_inverse else 0))


@register("DynamicTimeWarping", domain=MICROSOFT)
def time_warp(node: Node) -> Cost:
    """Two comparisons and an addition for each cost."""
    return Cost(simple=3 * node.input(0).n_elements)


@register("NGramRepeatBlock", domain=MICROSOFT, not_weights=(0,))
def block_repeats(node: Node) -> Cost:
    """The last n - 1 tokens are compared with those at each place before."""
    ids, n = node.input(0), required(node, "ngram_size")
    places = max(ids.shape[1] - n + 1, 0)
    return Cost(simple=ids.shape[0] * places * (n - 1))


@register("NGramHashMapping", "VarlenNGramHashMapping", domain=MICROSOFT)
def hash_ngrams(node: Node) -> Cost:
    """For each length n up to the longest: n products and n - 1 xors a token.

    Each hash of it takes a division, and an addition where there are offsets.
    """
    longest, heads = required(node, "max_ngram_size"), required(node, "n_head_per_ngram")
    mixing = longest * longest - 1  # 2·n - 1, summed over n from 2
    offsets = node.has(4 if node.op_type == "NGramHashMapping" else 5)
    hashes = (longest - 1) * heads * (1 + offsets)
    return Cost(simple=node.input(0).n_elements * (mixing + hashes))


@register("BifurcationDetector", domain=MICROSOFT)
def detect_bifurcation(node: Node) -> Cost:
    """A comparison for each predicted token, and n for each place of an n-gram's search."""
    predicted = node.optional(3)
    shortest, longest = node.integer("min_ngram_size", 1), node.integer("max_ngram_size", 3)
    lengths = max(longest - shortest + 1, 0) * (shortest + longest) // 2
    searched = node.input(0).n_elements * lengths
    return Cost(simple=searched + (0 if predicted is None else predicted.n_elements))


@register("Tokenizer", domain=MICROSOFT)
def tokenize(node: Node) -> Cost:  # noqa: ARG001
    """No arithmetic; strings have no size in a file and count no bytes."""
    return NOTHING


@register("WordConvEmbedding", domain=MICROSOFT, operands=(1, 3))
def embed_words(node: Node) -> Cost:
    """Letters become vectors; filters over windows of them, bias, tanh, and the maximum.

    For each word, window and filter window · width multiply-adds; then 2 operations and a
    function. It reads all vectors of letters.
    """
    words, filters = node.input(0), node.input(1)
    n_filters, window, width = filters.shape[0], filters.shape[2], filters.shape[3]
    n_words = words.n_elements // max(words.shape[-1], 1)
    n = n_words * max(words.shape[-1] - window + 1, 0) * n_filters
    return Cost(macs=n * window * width, simple=2 * n, functions=n)
