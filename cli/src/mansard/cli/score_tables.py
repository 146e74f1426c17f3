"""Scores as tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.records import LayerScore, ModelScore

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


def score_rows(scores: Sequence[ModelScore]) -> Table:
    """Columns and one row of totals for each score.

    The cached traffic, keys and values, and dimensions have a column where they tell something.
    """
    from mansard.analytics.data.names import differing_dimensions

    columns = ("network", "batch", "precision", "phase", "GMAC", "GFLOP", "params (M)")
    moved = ("weights (MB)", "traffic (MB)", "fused (MB)", "peak (MB)", "FLOP/byte")
    more: dict[str, list[str]] = {}
    if any(score.cache_bytes is not None for score in scores):
        more["cached (MB)"] = [_cached(score) for score in scores]
    if any(score.kv_cache_bytes for score in scores):
        more["KV cache (MB)"] = [_scaled(score.kv_cache_bytes, 1e6) for score in scores]
    differing = differing_dimensions(scores)
    if any(differing):
        more["dimensions"] = differing
    rows = [
        (*_score_row(score), *(cells[i] for cells in more.values()))
        for i, score in enumerate(scores)
    ]
    return (*columns, *moved, *more), rows


def _cached(score: ModelScore) -> str:
    from mansard.estimator import totals

    return _scaled(totals(score).cached_traffic_bytes, 1e6)


def _score_row(score: ModelScore) -> tuple[str, ...]:
    from mansard.estimator import totals

    total = totals(score)
    return (
        score.model,
        "–" if score.batch is None else str(score.batch),
        score.precision,
        score.phase,
        _scaled(total.macs, 1e9),
        _scaled(total.work_flop, 1e9),
        _scaled(total.parameters, 1e6),
        _scaled(total.weight_bytes, 1e6),
        _scaled(total.traffic_bytes, 1e6),
        _scaled(total.fused_traffic_bytes, 1e6),
        _scaled(score.peak_activation_bytes, 1e6),
        _scaled(total.intensity, 1),
    )


def work_rows(score: ModelScore) -> Table:
    """The work of one score by class, precision and execution unit."""
    from mansard.estimator import totals

    total = totals(score)
    classes = {
        "multiply-adds": total.multiply_add_flop,
        "single operations": total.simple_flop,
        "functions": total.function_flop,
    }
    rows: list[tuple[str, ...]] = [
        ("class", name, *_share(flop, total.work_flop)) for name, flop in classes.items()
    ]
    for what, parts in (("precision", total.by_precision), ("unit", total.by_unit)):
        rows += [(what, name, *_share(flop, total.work_flop)) for name, flop in parts.items()]
    return ("by", "work", "GFLOP", "share"), rows


def _share(flop: int | None, whole: int | None) -> tuple[str, str]:
    if flop is None or not whole:
        return _scaled(flop, 1e9), "–"
    return _scaled(flop, 1e9), f"{flop / whole:.1%}"


def is_free(layer: LayerScore) -> bool:
    """Whether a layer does nothing and moves nothing: a constant, a view, a shape."""
    return layer.work_flop == 0 and layer.traffic_bytes == 0


def layer_rows(layers: Sequence[LayerScore]) -> Table:
    """Columns and one row for each layer that is not free."""
    columns = ("layer", "operator", "precision", "unit", "runs", "MMAC", "MFLOP")
    moved = ("parameters (k)", "read (MB)", "written (MB)", "fused (MB)", "group", "FLOP/byte")
    return columns + moved, [_layer_row(layer) for layer in layers if not is_free(layer)]


def _layer_row(layer: LayerScore) -> tuple[str, ...]:
    name = layer.name or f"(node {layer.index})"
    return (
        f"{layer.scope}/{name}" if layer.scope else name,
        layer.op_type,
        layer.precision,
        layer.unit,
        str(layer.runs),
        _scaled(layer.macs, 1e6),
        _scaled(layer.work_flop, 1e6),
        _scaled(layer.parameters, 1e3),
        _scaled(layer.read_bytes, 1e6),
        _scaled(layer.write_bytes, 1e6),
        _scaled(layer.fused_traffic_bytes, 1e6),
        "unknown" if layer.fused_group is None else str(layer.fused_group),
        _intensity(layer),
    )


def _intensity(layer: LayerScore) -> str:
    if layer.work_flop is None or not layer.traffic_bytes:
        return "–"  # unknown work, or a layer that moves nothing
    return f"{layer.work_flop / layer.traffic_bytes:.4g}"


def _scaled(value: float | None, unit: float) -> str:
    return "unknown" if value is None else f"{value / unit:.4g}"
