"""Made-up rows of hierarchical inference with a server, by their times and answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mansard.core.records import EnergyWindow, OffloadRule, OffloadRun, OffloadWay, ServedNetwork
from tests.analytics.factory import calm, manifest, write_run

RUN_ID = "a" * 16
SERVED = ServedNetwork(
    model="large",
    model_hash="2" * 16,
    weights_hash="3" * 64,
    engine="ort",
    engine_version="1.2",
    provider="cpu",
    precision="fp32",
    n_classes=3,
    preprocessing="",
    takes_images=False,
    input_name="x",
    input_type="float32",
    input_shape=(2,),
)
BELOW = OffloadRule(threshold=0.6, logistic=None, unknown={"logistic": "the confidence is p1"})


def offload_row(
    way: OffloadWay,
    *,
    first: int = 0,
    predicted: Sequence[int],
    latency_s: Sequence[float],
    p1: Sequence[float] = (),
    offloaded: Sequence[int] = (),
    energy: EnergyWindow | None = None,
    **known: Any,
) -> OffloadRun:
    """A block whose labels are all 1; the small network takes the latency but 1 ms of it."""
    n, n_sent = len(predicted), len(offloaded)
    n_local = 0 if way == "remote" else n
    values: dict[str, Any] = {
        "labels": (1,) * n,
        "local": tuple(predicted[:n_local]),
        "p1": tuple(p1),
        "p2": tuple((1 - one) / 2 for one in p1),
        "local_s": tuple(s - 1e-3 for s in latency_s[:n_local]),
        "decision_s": (1e-3,) * n_local,
        "round_trip_s": (8e-3,) * n_sent,
        "server_s": (5e-3,) * n_sent,
        "inference_s": (4e-3,) * n_sent,
        "sent_bytes": (3072,) * n_sent,
        "received_bytes": (80,) * n_sent,
        "decisions": (),
    } | known
    unknown = {} if energy is not None else {"energy": "no meter"}
    if values["labels"] is None:
        unknown["labels"] = "the data set has no labels"
    return OffloadRun(
        run_id=RUN_ID,
        trial_id=f"{way}-{first}",
        source="measured",
        model="small",
        model_hash="0" * 16,
        weights_hash="1" * 64,
        engine="ort",
        engine_version="1.2",
        processor="cpu",
        provider="cpu",
        precision="fp32",
        address="http://server:8500",
        served=SERVED,
        dataset="test_batch",
        dataset_hash="4" * 16,
        preprocessing="as they are",
        way=way,
        rule=BELOW,
        scores="probabilities",
        n_classes=3,
        first=first,
        n_samples=n,
        predicted=tuple(predicted),
        latency_s=tuple(latency_s),
        offloaded=tuple(offloaded),
        n_reconnects=0,
        energy=energy,
        conditions=calm(),
        disturbances=(),
        started_utc="2026-01-02T03:04:05Z",
        duration_s=1.0,
        unknown=unknown,
        **values,
    )


def write_offloads(runs: Path, rows: Sequence[OffloadRun], n_trials: int | None = None) -> Path:
    """A run in the folder ``runs``."""
    run = manifest(RUN_ID, 2, n_trials or len(rows), kind="offloads")
    return write_run(runs / RUN_ID, run, rows)
