"""Scoring files and zoo networks the same way, and showing scores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mansard.core.errors import UsageError
from mansard.core.records import LayerScore, ModelScore, Phase

_COLUMNS = ("GMAC", "GFLOP", "parameters (M)", "weights (MB)", "traffic (MB)", "FLOP/byte")


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """``name=value`` pairs of the command line; raises UsageError."""
    dimensions: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        # Python reads no integer of thousands of digits; no size has more than 19.
        if not equals or not name or not re.fullmatch("0*[1-9][0-9]{0,18}", value):
            raise UsageError(
                f"--dim {text!r} is not a dimension",
                fix="write name=value with a value of 1 or more, for example --dim sequence=128",
            )
        dimensions[name] = int(value)
    return dimensions


def score_file(
    path: Path,
    *,
    batch: int | None,
    dims: Mapping[str, int],
    precision: str | None,
    phase: Phase,
    allow_unknown: bool = False,
) -> ModelScore:
    """Score an ONNX file; raises ModelError."""
    from mansard.estimator import score

    return score(
        path,
        batch=batch,
        dims=dims,
        precision=precision,
        phase=phase,
        allow_unknown=allow_unknown,
    )


def score_zoo(
    name: str,
    *,
    batch: int,
    dims: Mapping[str, int],
    precision: str | None,
    phase: Phase,
) -> ModelScore:
    """Score a zoo network, with its usual dimensions where none are given."""
    from mansard.estimator import score, zoo

    usual = dict(zoo.entry(name).dims)
    return score(
        zoo.read(name),
        name=name,
        batch=batch,
        dims={dim: dims.get(dim, value) for dim, value in usual.items() if dim != "batch"},
        precision=precision,
        phase=phase,
    )


def score_rows(scores: Sequence[ModelScore]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and one row of totals for each score."""
    from mansard.estimator import totals

    rows: list[tuple[str, ...]] = []
    for score in scores:
        total = totals(score)
        rows.append(
            (
                score.model,
                "–" if score.batch is None else str(score.batch),
                score.precision,
                score.phase,
                _scaled(total.macs, 1e9),
                _scaled(total.work_flop, 1e9),
                _scaled(total.parameters, 1e6),
                _scaled(total.weight_bytes, 1e6),
                _scaled(total.traffic_bytes, 1e6),
                _scaled(total.intensity, 1),
            )
        )
    return ("network", "batch", "precision", "phase", *_COLUMNS), rows


def is_free(layer: LayerScore) -> bool:
    """Whether a layer does nothing and moves nothing: a constant, a view, a shape."""
    return layer.work_flop == 0 and layer.traffic_bytes == 0


def layer_rows(layers: Sequence[LayerScore]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and one row for each layer that is not free."""
    rows: list[tuple[str, ...]] = [
        (
            layer.name or f"(node {layer.index})",
            layer.op_type,
            layer.precision,
            _scaled(layer.macs, 1e6),
            _scaled(layer.work_flop, 1e6),
            _scaled(layer.parameters, 1e3),
            _scaled(layer.input_bytes, 1e6),
            _scaled(layer.output_bytes, 1e6),
            _scaled(layer.traffic_bytes, 1e6),
            _intensity(layer),
        )
        for layer in layers
        if not is_free(layer)
    ]
    return (
        "layer",
        "operator",
        "precision",
        "MMAC",
        "MFLOP",
        "parameters (k)",
        "in (MB)",
        "out (MB)",
        "traffic (MB)",
        "FLOP/byte",
    ), rows


def _intensity(layer: LayerScore) -> str:
    if layer.work_flop is None or not layer.traffic_bytes:
        return "–"  # unknown work, or a layer that moves nothing
    return f"{layer.work_flop / layer.traffic_bytes:.4g}"


def _scaled(value: float | None, unit: float) -> str:
    return "unknown" if value is None else f"{value / unit:.4g}"
