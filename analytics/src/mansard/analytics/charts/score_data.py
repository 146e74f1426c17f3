"""The layers of a score as the page about them draws and lists them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from mansard.analytics.data.names import shown
from mansard.core.records import LayerScore, ModelScore

MOST_BARS = 30  # layers of one network in the chart of shares
MOST_POINTS = 1500  # layers of one network in the scatter plot
OTHERS = "others"
_MOST_OPERATORS = 6  # told apart by colour; what is left is one category


def busy_layers(score: ModelScore) -> list[LayerScore]:
    """The layers whose work and bytes are known and that do or move something."""
    return [
        layer
        for layer in score.layers
        if layer.work_flop is not None
        and layer.traffic_bytes is not None
        and (layer.work_flop or layer.traffic_bytes)
    ]


def layer_name(layer: LayerScore) -> str:
    """How the page calls a layer; names can be empty or doubled, so its index stands before."""
    name = layer.name or layer.op_type
    return shown(f"{layer.index} {layer.scope}/{name}" if layer.scope else f"{layer.index} {name}")


def share_frame(layers: Sequence[LayerScore]) -> pl.DataFrame:
    """Shares of work and of bytes, in percent: two rows for each of the heaviest layers."""
    work = sum(layer.work_flop or 0 for layer in layers) or 1
    moved = sum(layer.traffic_bytes or 0 for layer in layers) or 1
    shares = [((each.work_flop or 0) / work, (each.traffic_bytes or 0) / moved) for each in layers]
    heaviest = sorted(range(len(layers)), key=lambda i: -max(shares[i]))[:MOST_BARS]
    rows = [
        {
            "layer": layer_name(layers[i]),
            "what": what,
            "share": 100 * shares[i][part],
            "text": f"{100 * shares[i][part]:.3g} %",
            "operator": shown(layers[i].op_type),
        }
        for i in sorted(heaviest)
        for part, what in enumerate(("work", "bytes"))
    ]
    schema = {"layer": pl.String, "what": pl.String, "share": pl.Float64, "text": pl.String}
    return pl.DataFrame(rows, schema={**schema, "operator": pl.String})


def point_frame(layers: Sequence[LayerScore]) -> pl.DataFrame:
    """Intensity, work and bytes of each layer that does something and moves something."""
    drawn = [layer for layer in layers if layer.work_flop and layer.traffic_bytes]
    drawn = sorted(drawn, key=lambda layer: -(layer.work_flop or 0))[:MOST_POINTS]
    common = _common_operators(drawn)
    rows = [
        {
            "layer": layer_name(layer),
            "operator": layer.op_type if layer.op_type in common else OTHERS,
            "intensity": (layer.work_flop or 0) / (layer.traffic_bytes or 1),
            "mflop": (layer.work_flop or 0) / 1e6,
            "mbytes": (layer.traffic_bytes or 0) / 1e6,
            "text": f"{(layer.work_flop or 0) / 1e6:,.4g} MFLOP, "
            f"{(layer.traffic_bytes or 0) / 1e6:,.4g} MB, "
            f"{(layer.work_flop or 0) / (layer.traffic_bytes or 1):,.4g} FLOP/byte",
        }
        for layer in drawn
    ]
    schema = {"layer": pl.String, "operator": pl.String, "intensity": pl.Float64}
    more = {"mflop": pl.Float64, "mbytes": pl.Float64, "text": pl.String}
    return pl.DataFrame(rows, schema={**schema, **more})


def _common_operators(layers: Sequence[LayerScore]) -> set[str]:
    work: dict[str, int] = {}
    for layer in layers:
        work[layer.op_type] = work.get(layer.op_type, 0) + (layer.work_flop or 0)
    names = sorted(work, key=lambda name: -work[name])
    few = names if len(names) <= _MOST_OPERATORS else names[: _MOST_OPERATORS - 1]
    return {name for name in few if shown(name) == name and name != OTHERS}
