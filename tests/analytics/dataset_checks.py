"""What tests of datasets ask of two of them, and samples of a meter."""

from __future__ import annotations

from pathlib import Path

from polars.testing import assert_frame_equal

from mansard.analytics.data.dataset import Dataset
from mansard.core.records import PowerSample
from mansard.core.storage.jsonl import RowWriter


def assert_same(found: Dataset, wanted: Dataset) -> None:
    """All but the places, which say where it was read."""
    for name in ("runs", "trials", "energy", "layers"):
        assert_frame_equal(getattr(found, name), getattr(wanted, name))
    for name in ("repetitions", "samples"):
        order = ["run_id"]
        assert_frame_equal(
            getattr(found, name).collect().sort(order, maintain_order=True),
            getattr(wanted, name).collect().sort(order, maintain_order=True),
        )
    for name in (
        *("manifests", "scores", "notes"),
        *("workload_manifests", "measurements", "programs", "generations"),
        *("accuracy_manifests", "accuracies", "multi", "contention"),
    ):
        assert getattr(found, name) == getattr(wanted, name)


def write_samples(folder: Path, powers_w: list[float]) -> None:
    with RowWriter(folder / "samples.jsonl", PowerSample) as writer:
        writer.extend(
            PowerSample(
                rail="VDD_IN",
                monotonic_s=float(at),
                power_w=power_w,
                energy_j=None,
                unknown={"energy_j": "this meter reads power"},
            )
            for at, power_w in enumerate(powers_w)
        )
