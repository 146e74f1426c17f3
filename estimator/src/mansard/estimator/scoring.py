"""Scoring a network: one row of work and traffic for each node."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.core.hashing import file_hash
from mansard.core.precision import Precision, parse_precision
from mansard.core.records import ModelScore, Phase
from mansard.estimator.batching import check_batch, known_batch
from mansard.estimator.dimensions import bind
from mansard.estimator.graph import read_model, read_source
from mansard.estimator.layers import main_precision, score_layers
from mansard.estimator.model import Model
from mansard.estimator.propagation import propagate


class Settings(msgspec.Struct, frozen=True):
    """Under which circumstances a network is scored; see ``score``."""

    batch: int | None = None
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)
    precision: Precision | None = None
    phase: Phase = "inference"
    allow_unknown: bool = False


class Loaded(msgspec.Struct, frozen=True, eq=False):
    """A file that was read once, to be scored any number of times."""

    name: str
    place: str  # how errors call it: the file as it was given, or the model's name
    model_hash: str
    model: Model


def score(
    source: Path | bytes,
    *,
    name: str | None = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    precision: str | None = None,
    phase: Phase = "inference",
    allow_unknown: bool = False,
) -> ModelScore:
    """Work and traffic of every node of an ONNX model; nothing is executed.

    ``name`` is the file's stem by default. ``batch`` sets the batch dimension,
    ``dims`` dimensions by name; ``precision`` counts floating tensors at another
    width (None: as the file has them). With ``allow_unknown`` an operator without a
    formula, and whatever has no shape because of it, becomes a row of unknown
    counts; without it, all of them are one ModelError.

    Raises ModelError, UsageError or StorageError, and nothing else.
    """
    if phase not in get_args(Phase):
        raise UsageError(f"unknown phase {phase!r}", fix=f"use {' or '.join(get_args(Phase))}")
    width = parse_precision(precision) if precision is not None else None
    settings = Settings(batch, dims or {}, width, phase, allow_unknown)
    return score_loaded(load(source, name), settings)


def load(source: Path | bytes, name: str | None = None) -> Loaded:
    """Read a model; raises ModelError or StorageError."""
    shown = name or (_stem(source) if isinstance(source, Path) else "model")
    place = str(source) if isinstance(source, Path) else f"model {shown!r}"
    try:
        if isinstance(source, Path):
            data, digest = read_source(source)
        else:
            data, digest = source, file_hash(source)
        return Loaded(shown, place, digest, read_model(data))
    except ModelError as error:
        raise _within(place, error) from error


def _stem(path: Path) -> str:
    # A file's name may be any bytes; a record holds text.
    return os.fsencode(path.stem).decode("utf-8", "replace")


def score_loaded(loaded: Loaded, settings: Settings) -> ModelScore:
    """Score a model that was read before; raises ModelError or UsageError."""
    try:
        return _score(loaded, settings)
    except ModelError as error:
        raise _within(loaded.place, error) from error


def _within(place: str, error: ModelError) -> ModelError:
    what = f"{error.where}: {error.what}" if error.where else error.what
    return ModelError(what, where=place, fix=error.fix)


def _score(loaded: Loaded, settings: Settings) -> ModelScore:
    model = loaded.model
    binding = bind(model, settings.batch, settings.dims)
    network = propagate(model, binding.shapes)
    check_batch(model, binding, network, settings.dims)
    batch = known_batch(binding, network)
    precision = settings.precision
    layers, alternatives = score_layers(
        network.nodes, precision, settings.phase, settings.allow_unknown
    )
    unknown = {
        "cache_bytes": "no cache was given",
        "peak_activation_bytes": "not modelled yet",
        "kv_cache_bytes": "not modelled yet",
        "optimizer_state_bytes": "not modelled yet",
    }
    if batch is None:
        unknown["batch"] = "the model does not say which dimension is the batch"
    return ModelScore(
        model=loaded.name,
        model_hash=loaded.model_hash,
        source="modelled",
        phase=settings.phase,
        batch=batch,
        precision=precision.name if precision else main_precision(layers),
        dimensions=dict(binding.named),
        trips={},
        optimizer="sgd" if settings.phase == "training" else "none",
        recompute=False,
        cache_bytes=None,
        peak_activation_bytes=None,
        kv_cache_bytes=None,
        optimizer_state_bytes=None,
        layers=layers,
        alternatives=alternatives,
        unknown=unknown,
    )
