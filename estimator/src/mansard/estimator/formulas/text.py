"""Operators on strings and encoded images: no arithmetic of the network.

https://onnx.ai/onnx/operators/onnx__StringConcat.html, …__StringNormalizer, …__StringSplit,
…__RegexFullMatch, …__TfIdfVectorizer, …__ImageDecoder
"""

from __future__ import annotations

from mansard.estimator.cost import NOTHING, Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch")
def handle_text(node: Node) -> Cost:  # noqa: ARG001
    """No arithmetic; strings have no size in a file and count no bytes."""
    return NOTHING


@register("ImageDecoder")
def decode_image(node: Node) -> Cost:  # noqa: ARG001
    """No arithmetic of the network; reads the stream, writes the pixels."""
    return NOTHING


_LONGEST = 1000


@register("TfIdfVectorizer")
def tfidf(node: Node) -> Cost:
    """An addition for each n-gram of the input, a factor or comparison for each output.

    n-grams of each length from ``min_gram_length`` to ``max_gram_length`` over each skip
    from 0 to ``max_skip_count``; counts alone ("TF") need no factor.
    """
    data, n_outputs = node.input(0), node.output.n_elements
    length = data.shape[-1]
    n_rows = data.n_elements // length if length else 0
    shortest, longest = node.integer("min_gram_length", 1), node.integer("max_gram_length", 1)
    n_skips = node.integer("max_skip_count", 0) + 1
    if max(longest, n_skips) > _LONGEST:
        raise node.error(f"n-grams of {longest} words or skips of {n_skips - 1} are absurd")
    n_grams = sum(
        max(length - (size - 1) * (skip + 1), 0)
        for size in range(max(shortest, 1), longest + 1)
        for skip in range(n_skips if size > 1 else 1)
    )
    last = 0 if node.text("mode", "TF") == "TF" else n_outputs
    return Cost(simple=n_rows * n_grams + last)
