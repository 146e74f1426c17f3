"""Layers of networks that others ran: from rows of a profile to records, and as a frame.

A profile has times, a list of layers has types, formats and kernels: ``published_layers`` brings
both together by the names of the layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mansard.analytics.data.published.cells import (
    LARGEST_COUNT,
    NOT_SAID,
    Cells,
    LayerRow,
    TextTable,
)
from mansard.analytics.data.published.columns import KnownColumn
from mansard.analytics.data.published.origin import BOUNDS, SHARE, PublishedOrigin
from mansard.core.errors import InputError
from mansard.core.formats.tensorrt import (
    LONGEST_LAYER_NAME,
    take_apart,
)
from mansard.core.records import PublishedLayer

if TYPE_CHECKING:
    import polars as pl


def read_layers(
    table: TextTable, columns: Sequence[KnownColumn], origin: PublishedOrigin
) -> Iterator[PublishedLayer]:
    """The layers of all rows, without their table's id yet; raises InputError."""
    for row in table.rows:
        if row.layers:
            cells = Cells(table, tuple(columns), row)
            values = _shared(cells, origin)
            for index, layer in enumerate(row.layers):
                yield _record(cells.where, values, index, layer)


def _shared(cells: Cells, origin: PublishedOrigin) -> dict[str, object]:
    """What all layers of a row have in common."""
    return {
        "table_id": "",
        "row": cells.row.line,
        "device": origin.device,
        "processor": origin.processor,
        "citation": origin.citation,
        "mode": cells.mode(),
        "network": cells.needed("network"),
        "batch": cells.count("batch"),
        "precision": cells.precision(),
        "method": cells.text("method"),
    }


def _record(where: str, shared: dict[str, object], index: int, layer: LayerRow) -> PublishedLayer:
    if not layer.name or len(layer.name) > LONGEST_LAYER_NAME:
        raise InputError(
            f"layer {index} has a name of {len(layer.name):,} characters",
            where=where,
            fix="export it again",
        )
    for what, value, bound in (
        ("time", layer.mean_s, BOUNDS["time"]),
        ("time", layer.median_s, BOUNDS["time"]),
        ("share", layer.share, SHARE),
    ):
        if value and not bound.holds(round(value, 6) if bound is SHARE else value):
            raise InputError(
                f"layer {index} has a {what} of {value:.4g}, which is impossible: {bound.text}",
                where=where,
                fix="export it again",
            )
    if layer.runs is not None and not 1 <= layer.runs <= LARGEST_COUNT:
        raise InputError(
            f"layer {index} is of {layer.runs} calls", where=where, fix="export it again"
        )
    fused = take_apart(layer.name, layer.metadata, is_copy=layer.is_copy)
    values = shared | {
        "index": index,
        "name": layer.name,
        "parts": fused.parts,
        "kind": fused.kind,
        "op_type": layer.op_type,
        "layer_precision": layer.precision,
        "tactic": layer.tactic,
        "mean_s": layer.mean_s,
        "median_s": layer.median_s,
        "share": layer.share,
        "runs": layer.runs,
    }
    unknown = {name: NOT_SAID for name, value in values.items() if value is None}
    return PublishedLayer(**values, unknown=unknown)  # type: ignore[arg-type]


_SAID = ("op_type", "layer_precision", "tactic")  # by a list of layers, and not by a profile


def published_layers(layers: Sequence[PublishedLayer]) -> pl.DataFrame:
    """PUBLISHED_LAYER_SCHEMA: a row for each layer that was timed, in the order of its file.

    What the profile does not say of a layer comes from a list of layers of the same network on the
    same device, by its name. The time is the median where the profile has it, else the mean.
    """
    import polars as pl

    from mansard.analytics.data.model_frames import PUBLISHED_LAYER_SCHEMA

    listed = {
        (layer.device, layer.network, layer.name): layer
        for layer in layers
        if layer.mean_s is None and layer.median_s is None
    }
    rows = []
    for layer in layers:
        seconds = layer.median_s if layer.median_s is not None else layer.mean_s
        if seconds is None:
            continue
        known = listed.get((layer.device, layer.network, layer.name), layer)
        # The list's metadata names the nodes; a profile has names alone.
        named = known if known.parts or known.kind == "engine" else layer
        rows.append(
            {name: getattr(layer, name, None) for name in PUBLISHED_LAYER_SCHEMA}
            | {
                name: mine if (mine := getattr(layer, name)) is not None else getattr(known, name)
                for name in _SAID
            }
            | {
                "mode": layer.mode.name,
                "seconds_s": seconds,
                "parts": list(named.parts),
                "kind": named.kind,
            }
        )
    return pl.DataFrame(rows, schema=PUBLISHED_LAYER_SCHEMA)
