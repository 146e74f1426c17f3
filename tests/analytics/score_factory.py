"""Made-up scores of networks, layer by layer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mansard.core.records import LAYER_COUNTS, LayerScore, ModelScore
from mansard.core.storage.jsonl import RowWriter

_SIZES = ("weight_bytes", "input_bytes", "output_bytes")


def layer(
    index: int,
    work_flop: int | None,
    traffic_bytes: int | None,
    *,
    name: str = "",
    op_type: str = "Conv",
    precision: str = "fp32",
    unit: Literal["tensor core", "CUDA core", "none"] = "CUDA core",
) -> LayerScore:
    known: dict[str, int] = dict.fromkeys((*LAYER_COUNTS, "fused_group"), 0)
    known |= {"parameters": 10} | dict.fromkeys(_SIZES, 40)
    values = known | {
        "macs": None if work_flop is None else work_flop // 2,
        "multiply_add_flop": work_flop,
        "work_flop": work_flop,
        "read_bytes": traffic_bytes,
        "traffic_bytes": traffic_bytes,
        "fused_group": index,  # a kernel of its own
        "fused_read_bytes": traffic_bytes,
        "fused_traffic_bytes": traffic_bytes,
    }
    return LayerScore(
        index=index,
        name=name or f"layer {index}",
        op_type=op_type,
        domain="",
        scope="",
        runs=1,
        precision=precision,
        unit=unit,
        unknown={
            key: f"{op_type} has no formula" for key, value in values.items() if value is None
        },
        **values,
    )


def score(
    model: str,
    layers: Sequence[LayerScore],
    *,
    batch: int | None = 1,
    precision: str = "fp32",
) -> ModelScore:
    return ModelScore(
        model=model,
        model_hash=hashlib.sha256(model.encode()).hexdigest(),
        source="modelled",
        phase="inference",
        batch=batch,
        precision=precision,
        dimensions={},
        trips={},
        optimizer="none",
        recompute=False,
        cache_bytes=1 << 20,
        peak_activation_bytes=80,
        in_place_peak_bytes=80,
        fused_peak_bytes=80,
        kv_cache_bytes=0,
        optimizer_state_bytes=0,
        layers=tuple(layers),
        notes=(),
        alternatives=(),
        unknown={} if batch is not None else {"batch": "the model has no batch dimension"},
    )


def write_scores(runs: Path, scores: Sequence[ModelScore]) -> None:
    with RowWriter(runs / "scores.jsonl", ModelScore) as writer:
        for row in scores:
            writer.append(row)
