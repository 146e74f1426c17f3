"""Tables about scores for the page."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.charts.score_data import busy_layers, layer_name
from mansard.analytics.data.differences import differing_dimensions
from mansard.analytics.data.names import shown
from mansard.analytics.data.quantities import UNKNOWN, digits
from mansard.analytics.report.page_parts import Table
from mansard.core.records import LayerScore, ModelScore

MOST_ROWS = 600  # layers listed of one network: the page stays small


def summary_table(scores: Sequence[ModelScore]) -> Table:
    """One row of sums for each score."""
    columns = ("Network", "Batch", "Precision", "Phase", "GMAC", "GFLOP", "Parameters, M")
    moved = ("Weights, MB", "Traffic, MB", "Fused, MB", "Cached, MB", "Activations, MB")
    memory = ("KV cache, MB",)
    rows = [
        [
            full_name(score, sizes),
            UNKNOWN if score.batch is None else str(score.batch),
            score.precision,
            score.phase,
            _sum(score, "macs", 1e9),
            _sum(score, "work_flop", 1e9),
            _sum(score, "parameters", 1e6),
            _sum(score, "weight_bytes", 1e6),
            _sum(score, "traffic_bytes", 1e6),
            _sum(score, "fused_traffic_bytes", 1e6),
            _sum(score, "cached_traffic_bytes", 1e6),
            _scaled(score.peak_activation_bytes, 1e6),
            _scaled(score.kv_cache_bytes, 1e6),
        ]
        for score, sizes in zip(scores, differing_dimensions(scores), strict=True)
    ]
    numeric = frozenset({1, *range(4, 13)})
    return Table("Sums over all layers", columns + moved + memory, rows, numeric)


def full_name(score: ModelScore, sizes: str) -> str:
    """A network's name, and the ``sizes`` that tell its scores apart."""
    return f"{shown(score.model)}, {shown(sizes)}" if sizes else shown(score.model)


def operator_table(score: ModelScore) -> Table:
    """Work and bytes by operator, the heaviest first."""
    work: dict[str, list[int]] = {}
    for layer in busy_layers(score):
        sums = work.setdefault(layer.op_type, [0, 0, 0])
        sums[0] += layer.runs
        sums[1] += layer.work_flop or 0
        sums[2] += layer.traffic_bytes or 0
    whole = sum(sums[1] for sums in work.values()) or 1
    rows = [
        [
            shown(name),
            str(runs),
            _scaled(flop, 1e6),
            f"{100 * flop / whole:.3g}",
            _scaled(moved, 1e6),
        ]
        for name, (runs, flop, moved) in sorted(work.items(), key=lambda item: -item[1][1])
    ]
    columns = ("Operator", "Runs", "MFLOP", "Share, %", "MB")
    return Table("By operator", columns, rows, frozenset({1, 2, 3, 4}))


def class_table(score: ModelScore) -> Table:
    """The work by class, by precision and by the unit that could do it."""
    layers = busy_layers(score)
    parts: dict[tuple[str, str], int] = {
        ("class", "multiply-adds"): sum(layer.multiply_add_flop or 0 for layer in layers),
        ("class", "single operations"): sum(layer.simple_flop or 0 for layer in layers),
        ("class", "functions"): sum(layer.function_flop or 0 for layer in layers),
    }
    for layer in layers:
        for key in (("precision", layer.precision), ("unit", layer.unit)):
            parts[key] = parts.get(key, 0) + (layer.work_flop or 0)
    whole = sum(layer.work_flop or 0 for layer in layers) or 1
    rows = [
        [by, shown(name), _scaled(flop, 1e6), f"{100 * flop / whole:.3g}"]
        for (by, name), flop in sorted(parts.items(), key=lambda item: (item[0][0], -item[1]))
    ]
    return Table("By kind of work", ("By", "Work", "MFLOP", "Share, %"), rows, frozenset({2, 3}))


def layer_table(score: ModelScore) -> tuple[Table, str]:
    """The layers in the order of the file, and a note where some are left out."""
    layers = busy_layers(score)
    listed = layers
    if len(layers) > MOST_ROWS:
        heaviest = sorted(layers, key=lambda layer: -(layer.work_flop or 0))[:MOST_ROWS]
        listed = sorted(heaviest, key=lambda layer: layer.index)
    columns = ("Layer", "Operator", "Precision", "Unit", "Runs", "MFLOP", "MB", "FLOP/byte")
    rows = [_layer_row(layer) for layer in listed]
    left = len(layers) - len(listed)
    note = f"{left} layers with less work are left out; CSV and JSON hold all." if left else ""
    return Table("Layers", (*columns, "Fused, MB"), rows, frozenset({4, 5, 6, 7, 8})), note


def _layer_row(layer: LayerScore) -> list[str]:
    moved = layer.traffic_bytes or 0
    return [
        layer_name(layer),
        shown(layer.op_type),
        layer.precision,
        layer.unit,
        str(layer.runs),
        _scaled(layer.work_flop, 1e6),
        _scaled(moved, 1e6),
        digits((layer.work_flop or 0) / moved, 3) if moved else "–",
        _scaled(layer.fused_traffic_bytes, 1e6),
    ]


def _sum(score: ModelScore, name: str, unit: float) -> str:
    values = [getattr(layer, name) for layer in score.layers]
    return UNKNOWN if None in values else _scaled(sum(values), unit)


def _scaled(value: float | None, unit: float) -> str:
    return UNKNOWN if value is None else digits(value / unit, 4)
