"""Tables and words of an engine's layers under their roofs."""

from __future__ import annotations

from mansard.analytics.data.names import display_text
from mansard.analytics.data.quantities import NBSP, UNKNOWN, counted, digits, quantity, seconds
from mansard.analytics.models.layers.rows import RoofedLayer, RoofedLayers
from mansard.analytics.pages.figures.engine_layers import bound_text, layer_title
from mansard.analytics.pages.figures.tables import Column, tabulate
from mansard.core.precision import work_unit
from mansard.core.table import Table


def engine_layer_table(result: RoofedLayers, most: int | None = None) -> Table:
    """The layers with the largest gap, or the longest ones where no roof is known."""
    rows = result.layers if most is None else result.layers[:most]
    columns = [
        Column("Layer", layer_title),
        Column("Runs", _operators_text),
        Column("Time", lambda row: seconds(row.time_s), is_numeric=True),
        Column("Share", lambda row: _percent(row.share), is_numeric=True),
        Column("Gap", lambda row: _gap_text(row.gap_s), is_numeric=True),
        Column("Of roof", lambda row: _percent(row.roof_share), is_numeric=True),
        Column("Bound by", bound_text),
        Column("Work", _work_text, is_numeric=True),
        Column("Bytes", lambda row: quantity(row.traffic_bytes, "B", n_digits=3), is_numeric=True),
        *(_OF_COUNTERS if any(map(_is_counted, rows)) else ()),
        Column("FLOP/byte", lambda row: _digits(row.intensity), is_numeric=True),
        Column("Rate", _rate_text, is_numeric=True),
        Column("Bandwidth", lambda row: quantity(row.bytes_per_s, "B/s", n_digits=3),
               is_numeric=True),
        Column("Joined by", lambda row: "–" if row.joined_by == "none" else row.joined_by),
        Column("Remark", lambda row: display_text(row.remark) if row.remark else ""),
    ]  # fmt: skip
    by = "gap" if result.roofs_source is not None else "time"
    return tabulate(f"Layers of {network_title(result)} by {by}", columns, rows)


def network_title(result: RoofedLayers) -> str:
    """The network with its batch, precision and where it ran."""
    batch = "" if result.batch is None else f", batch {result.batch}"
    label = result.label and f"label {result.label}"
    where = ", ".join(filter(None, (result.device, result.mode, label)))
    return display_text(f"{result.network}{batch}, {result.precision}{where and f', {where}'}")


def _operators_text(row: RoofedLayer) -> str:
    if row.kind == "reformat":
        return "a reformat"
    if not row.nodes:
        return "not joined" if row.kind in {"layer", "region"} else "no node"
    more = len(row.operators) - 1
    first = display_text(row.operators[0])
    return f"{first} + {more}" if more > 0 else first


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:.3g}{NBSP}%"


def _gap_text(gap_s: float | None) -> str:
    if gap_s is None:
        return UNKNOWN
    return seconds(gap_s) if gap_s >= 0 else f"−{seconds(-gap_s)}"


def _digits(value: float | None) -> str:
    return UNKNOWN if value is None else digits(value, 3)


def _work_text(row: RoofedLayer) -> str:
    return quantity(row.work_flop, work_unit(row.precision), n_digits=3)


def _is_counted(row: RoofedLayer) -> bool:
    return row.traffic_of == "counted" or row.counted_flop is not None


def _counted_text(row: RoofedLayer) -> str:
    return quantity(row.counted_flop, work_unit(row.precision), n_digits=3)


def _estimate_text(row: RoofedLayer) -> str:
    """The estimated bytes, only beside counted ones."""
    of_nodes = row.estimated_bytes if row.traffic_of == "counted" else None
    return quantity(of_nodes, "B", n_digits=3)


# Shown beside scored work and counted bytes.
_OF_COUNTERS = (
    Column("Counted", _counted_text, is_numeric=True),
    Column("Estimate", _estimate_text, is_numeric=True),
)


def _rate_text(row: RoofedLayer) -> str:
    return quantity(row.flop_per_s, f"{work_unit(row.precision)}/s", n_digits=3)


def engine_layer_words(result: RoofedLayers) -> list[str]:
    """A summary of the layers in sentences: their time, the join, the gap."""
    n_layers = counted(len(result.layers), "engine layer")
    lines = []
    if result.layers_s is not None:
        whole = ""
        if result.whole_s is not None:
            whole = f", and a call without a profile {seconds(result.whole_s)}"
        lines.append(
            f"{n_layers} take {seconds(result.layers_s)} in sum{whole} "
            f"({result.source}, {display_text(result.engine)})."
        )
        lines.append(_join_words(result))
        n_counted = sum(row.traffic_of == "counted" for row in result.layers)
        if n_counted:
            lines.append(
                f"Bytes of {counted(n_counted, 'engine layer')} were counted, not estimated."
            )
    else:
        lines.append(f"{n_layers} without times ({display_text(result.engine)}).")
    if result.roofs_source is None:
        lines.append(f"No roof is known: {display_text(result.unknown['roofs_source'])}.")
    elif result.gap_s is not None and result.layers_s:
        lines.append(
            f"Gaps to the roofs of {display_text(result.roofs)} ({result.roofs_source}) sum to "
            f"{_gap_text(result.gap_s)}, {_percent(result.gap_s / result.layers_s)} of the time: "
            "the most that can be gained."
        )
        lines.append("Layers faster than their roofs count as 0: a whole call may gain less.")
    return lines


def _join_words(result: RoofedLayers) -> str:
    parts = [f"{_percent(result.joined_share)} of the time is joined to nodes of the network"]
    if result.guessed_share:
        parts[0] += f" ({_percent(result.guessed_share)} by a guess)"
    for share, words in (
        (result.reformat_share, "is spent in reformats"),
        (result.own_share, "is spent in layers that the engine adds"),
        (result.lost_share, "is not joined"),
    ):
        if share:
            parts.append(f"{_percent(share)} {words}")
    return f"{', '.join(parts)}."
