"""Scoring files and zoo networks the same way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mansard.core.records import ModelScore, Phase


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
