"""Operators on strings and encoded images.

https://onnx.ai/onnx/operators/onnx__StringConcat.html, …__StringNormalizer, …__StringSplit,
…__RegexFullMatch, …__TfIdfVectorizer, …__ImageDecoder
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.estimator.element_types import BOOL, FLOAT32, INT64, STRING, UINT8
from mansard.estimator.shapes.checks import check_rank
from mansard.estimator.shapes.elementwise import broadcast
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

_CHANNELS = {"RGB": 3, "BGR": 3, "Grayscale": 1}


@rule("StringConcat")
def _string_concat(node: Node) -> Sequence[Spec]:
    return [(STRING, broadcast(node, node.input(0).shape, node.input(1).shape))]


@rule("RegexFullMatch")
def _regex_full_match(node: Node) -> Sequence[Spec]:
    return [(BOOL, node.input(0).shape)]


@rule("StringNormalizer")
def _string_normalizer(node: Node) -> Sequence[Spec]:
    """Strings without the stop words; where none is left there is one, an empty string."""
    shape = node.input(0).shape
    if len(shape) not in (1, 2) or (len(shape) == 2 and shape[0] != 1):
        raise node.error(f"needs [n] or [1, n], the input is {list(shape)}")
    if not node.attributes.get("stopwords"):
        return [(STRING, shape)]
    return [(STRING, (*shape[:-1], None))]


@rule("StringSplit")
def _string_split(node: Node) -> Sequence[Spec]:
    """The parts, as many as the string with most of them has, and how many each has."""
    shape = node.input(0).shape
    return [(STRING, (*shape, None)), (INT64, shape)]


@rule("TfIdfVectorizer")
def _tfidf_vectorizer(node: Node) -> Sequence[Spec]:
    """[n] to [features], [batch, n] to [batch, features]."""
    check_rank(node, 0, 1, 2)
    indexes = node.integers("ngram_indexes")
    if not indexes or min(indexes) < 0:
        raise node.error("ngram_indexes are missing or negative")
    return [(FLOAT32, (*node.input(0).shape[:-1], max(indexes) + 1))]


@rule("ImageDecoder")
def _image_decoder(node: Node) -> Sequence[Spec]:
    """[height, width, channels] of a stream of bytes, in which the sizes are."""
    check_rank(node, 0, 1)
    pixels = node.text("pixel_format", "RGB")
    if pixels not in _CHANNELS:
        raise node.error(f"attribute 'pixel_format' = {pixels!r} does not exist")
    return [(UINT8, (None, None, _CHANNELS[pixels]))]
