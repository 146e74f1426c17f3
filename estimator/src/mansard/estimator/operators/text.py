"""Operators on strings and encoded images: no arithmetic of the network.

https://onnx.ai/onnx/operators/onnx__StringConcat.html, …__StringNormalizer, …__StringSplit,
…__RegexFullMatch, …__TfIdfVectorizer, …__ImageDecoder
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import BOOL, FLOAT32, INT64, STRING, UINT8
from mansard.estimator.operators.costs import handle_text, no_work
from mansard.estimator.operators.registry import Specs, operator, shape_of
from mansard.estimator.operators.shapes import broadcast, check_rank, chosen
from mansard.estimator.tensors import Node

_CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@shape_of("StringConcat", cost=handle_text)
def _string_concat_shape(node: Node) -> Specs:
    return [(STRING, broadcast(node, node.input(0).shape, node.input(1).shape))]


@shape_of("RegexFullMatch", cost=handle_text)
def _regex_full_match_shape(node: Node) -> Specs:
    return [(BOOL, node.input(0).shape)]


@shape_of("StringNormalizer", cost=handle_text)
def _string_normalizer_shape(node: Node) -> Specs:
    """Strings without the stop words; where none is left there is one, an empty string."""
    shape = node.input(0).shape
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        raise node.error(f"needs [n] or [1, n], the input is {list(shape)}")
    if not node.attributes.get("stopwords"):
        return [(STRING, shape)]
    return [(STRING, (*shape[:-1], None))]


@shape_of("StringSplit", cost=handle_text)
def _string_split_shape(node: Node) -> Specs:
    """The parts, as many as the string with most of them has, and how many each has."""
    shape = node.input(0).shape
    return [(STRING, (*shape, None)), (INT64, shape)]


def _tfidf_vectorizer_shape(node: Node) -> Specs:
    """[n] to [features], [batch, n] to [batch, features]."""
    check_rank(node, 0, 1, 2)
    indexes = node.integers("ngram_indexes")
    if not indexes or min(indexes) < 0:
        raise node.error("ngram_indexes are missing or negative")
    return [(FLOAT32, (*node.input(0).shape[:-1], max(indexes) + 1))]


_LONGEST = 1000


@operator("TfIdfVectorizer", shape=_tfidf_vectorizer_shape)
def tfidf(node: Node) -> Cost:
    """1 addition for each n-gram of each length and skip; 1 for each output, none with "TF"."""
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


@shape_of(
    "ImageDecoder",
    cost=no_work(),
)
def _image_decoder_shape(node: Node) -> Specs:
    """[height, width, channels] of a stream of bytes, in which the sizes are."""
    check_rank(node, 0, 1)
    pixels = chosen(node, "pixel_format", "RGB", _CHANNELS)
    return [(UINT8, (None, None, _CHANNELS[pixels]))]
