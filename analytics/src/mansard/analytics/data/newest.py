"""Of runs that must not be mixed, those that go with the newest of their device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from mansard.analytics.data.dataset import Dataset, device_id
from mansard.core.records import Manifest

_KERNEL = ["kernel", "backend", "precision"]


def newest(dataset: Dataset) -> Dataset:
    """``dataset`` without runs of a device that another Mansard, or another source, measured.

    What counts is the run of the device that began last: runs of its version whose kernels, as
    far as both ran them, are of the same sources. A note says how many are left out.
    """
    devices: dict[str, list[Manifest]] = {}
    for manifest in dataset.manifests:
        devices.setdefault(device_id(manifest), []).append(manifest)
    old = {
        run_id for manifests in devices.values() for run_id in _others(manifests, dataset.trials)
    }
    if not old:
        return dataset
    is_kept = ~pl.col("run_id").is_in(sorted(old))
    runs = "1 run is" if len(old) == 1 else f"{len(old)} runs are"
    note = (
        f"{runs} by another version of Mansard or of its kernels and left out; "
        "'mansard report --mix' shows all of them together"
    )
    return replace(
        dataset,
        runs=dataset.runs.filter(is_kept),
        trials=dataset.trials.filter(is_kept),
        repetitions=dataset.repetitions.filter(is_kept),
        energy=dataset.energy.filter(is_kept),
        samples=dataset.samples.filter(is_kept),
        manifests=tuple(each for each in dataset.manifests if each.run_id not in old),
        measurements=tuple(each for each in dataset.measurements if each.run_id not in old),
        notes=(*dataset.notes, note),
    )


def _others(manifests: Sequence[Manifest], trials: pl.DataFrame) -> Iterator[str]:
    """The runs of one device that do not go with its newest one."""
    last = max(manifests, key=lambda each: (each.started_utc, each.run_id))
    yield from (each.run_id for each in manifests if each.tool_version != last.tool_version)
    own = trials.filter(pl.col("run_id").is_in([each.run_id for each in manifests]))
    sources = own.select("run_id", *_KERNEL, "source_hash").unique()
    wanted = sources.filter(pl.col("run_id") == last.run_id).select(
        *_KERNEL, wanted_hash="source_hash"
    )
    differs = pl.col("source_hash") != pl.col("wanted_hash")
    yield from sources.join(wanted, on=_KERNEL).filter(differs)["run_id"].unique().sort()
