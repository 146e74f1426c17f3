"""The files that trtexec exports, read for a network that it ran."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.files import read_whole
from mansard.core.records import Copies, LayerTime
from mansard.core.tensorrt_files import (
    ExportedEngine,
    ExportedLayer,
    ExportedLayerTime,
    ExportedQuery,
)
from mansard.inference.engines.tensorrt.layers import layer_times

_MOST_BYTES = 1 << 30
Kind = TypeVar("Kind")


def read_times(path: Path, copies: Copies) -> tuple[float, ...]:
    """Seconds of each query of ``--exportTimes``, with the copies that belong to a call.

    GPU time between events; the time that the host takes to enqueue it is not in it, unless the
    GPU waits for that. Raises SchemaError, also where a query has no time.
    """
    queries = _read(path, list[ExportedQuery], "times")
    if any(query.compute_ms <= 0 for query in queries):
        raise SchemaError("trtexec exported a query without a time", where=path.name)
    copies_in, copies_out = copies in {"in", "both"}, copies in {"out", "both"}
    return tuple(
        1e-3
        * (
            query.compute_ms
            + (query.h2d_ms or query.in_ms or 0.0) * copies_in
            + (query.d2h_ms or query.out_ms or 0.0) * copies_out
        )
        for query in queries
    )


def read_profile(
    path: Path, described: tuple[ExportedLayer, ...]
) -> tuple[tuple[LayerTime, ...], int]:
    """The layers of ``--exportProfile`` with their mean times, and of how many calls they are."""
    entries = _read(path, list[ExportedLayerTime], "a profile")
    n_calls = next((entry.count for entry in entries if entry.count is not None), None)
    means = {
        entry.name: [entry.average_ms * 1e-3]
        for entry in entries
        if entry.name is not None and entry.average_ms is not None
    }
    if not n_calls or not means:
        raise SchemaError("trtexec exported no layer", where=path.name)
    return layer_times([means], described), n_calls


def read_layers(path: Path) -> tuple[ExportedLayer, ...]:
    """The layers of ``--exportLayerInfo``; raises SchemaError."""
    return tuple(_read(path, ExportedEngine, "layers").described)


def _read(path: Path, kind: type[Kind], what: str) -> Kind:
    try:
        return msgspec.json.decode(read_whole(path, most_bytes=_MOST_BYTES), type=kind)
    except msgspec.DecodeError as error:
        raise SchemaError(f"what trtexec exported as {what} is not whole: {error}") from error
