"""A decoder's two phases: prefill reads a prompt, decode makes one token from a cache.

Both are the same network with other dimensions. Which dimension is the new tokens and
which the cached ones follows from their inputs: those that hold keys and
values of earlier tokens, and those that hold tokens or their embeddings.
"""

from __future__ import annotations

import re

from mansard.core.errors import UsageError
from mansard.estimator.model import NOTHING_GIVEN, Model, ModelInput
from mansard.estimator.scoring import Loaded, naming_model
from mansard.estimator.shape_inference.dimensions import (
    InputDimension,
    InputDimensions,
    find_dimensions,
)

# Names that exporters give to the keys and values of earlier tokens: Hugging Face
# Optimum, ONNX Runtime GenAI, PyTorch's dynamo exporter, llama.cpp's converters.
_CACHE = re.compile(r"past|cache|kv", re.IGNORECASE)
_MASK = re.compile(r"mask", re.IGNORECASE)
_TOKENS = re.compile(r"ids|token|embeds", re.IGNORECASE)
# Inputs of another text or image, whose length neither stage defines.
_OTHER = re.compile(r"(?<![a-z])(encoder|cross)(?![a-z])", re.IGNORECASE)


def stage_dims(loaded: Loaded, n_new: int, n_cached: int) -> dict[str, int]:
    """Dimensions for ``n_new`` tokens after ``n_cached`` others.

    Inputs from an encoder have lengths of their own, which stay open.
    Raises UsageError where the network does not look like a decoder with a cache.
    """
    with naming_model(loaded.where):
        return _stage_dims(loaded.model, n_new, n_cached)


def _stage_dims(model: Model, n_new: int, n_cached: int) -> dict[str, int]:
    dimensions = find_dimensions(model, NOTHING_GIVEN)
    inputs = [source for source in model.inputs if not _OTHER.search(source.name)]
    cached = _symbols(dimensions, [source for source in inputs if _CACHE.search(source.name)])
    tokens = _symbols(dimensions, [source for source in inputs if _holds_tokens(source)]) - cached
    missing = [what for what, found in (("cached", cached), ("new", tokens)) if not found]
    if missing:
        raise UsageError(
            "the network does not look like a decoder: no dimension of "
            f"{' or '.join(missing)} tokens was found in its inputs",
            fix="set its dimensions by name with --dim",
        )
    masks = _symbols(dimensions, [source for source in inputs if _MASK.search(source.name)])
    return (
        dict.fromkeys(tokens, n_new)
        | dict.fromkeys(cached, n_cached)
        | dict.fromkeys(masks - tokens - cached, n_new + n_cached)
    )


def _holds_tokens(source: ModelInput) -> bool:
    if _CACHE.search(source.name) or _MASK.search(source.name):
        return False
    return _TOKENS.search(source.name) is not None


def _symbols(dimensions: InputDimensions, inputs: list[ModelInput]) -> set[str]:
    """Dimensions of ``inputs`` that are open, no batch, and no expression of others."""
    computed = dimensions.expressions()
    found: set[str] = set()
    for source in inputs:
        all_open = [
            dim
            for dim in dimensions.by_input.get(source.name, ())
            if _is_open(dim, dimensions) and dim.symbol not in computed
        ]
        # Where two are open, the last axis is the size of a head, as ONNX Runtime GenAI
        # leaves it open: kv_cache_dim, after past_sequence_length.
        lengths = all_open[:-1] if _ends_with_size(source, all_open) else all_open
        found.update(dim.symbol for dim in lengths)
    return found


def _ends_with_size(source: ModelInput, all_open: list[InputDimension]) -> bool:
    rank = len(source.dimensions or ())
    return rank > 2 and len(all_open) > 1 and all_open[-1].axis == rank - 1


def _is_open(dim: InputDimension, dimensions: InputDimensions) -> bool:
    return dim.fixed is None and dim.symbol not in dimensions.batch_symbols
