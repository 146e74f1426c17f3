"""How much memory traffic a board tells while a network runs, beside the traffic that is counted.

The board's activity monitor tells the share of the memory's bandwidth that was in use, by all
clients (``device/conditions/memory_use.py``): share × clock × 2 × bus / 8 are bytes in a second.
Counted are the fused bytes of the network's score (docs/traffic.md), over the measured time. The
readings cover the whole trial, loading and pauses between blocks too, so their mean is too low; the
highest is nearest to the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

import polars as pl

from mansard.analytics.data.dataset import Dataset, score_id
from mansard.analytics.data.names import device_labels, engine_name, network_key, network_names
from mansard.analytics.scaling.observations import shown_measurements, why_unused
from mansard.core.hardware import MODULES, memory_bytes_per_s
from mansard.core.records import Manifest, Measurement, MemoryUse, Record, Source

_MOST_CHANGE = 0.02  # of the memory's clock during a trial, for bytes to follow from shares


class MemoryTraffic(Record, frozen=True, kw_only=True):
    """One network in one mode of a board that tells how much its memory is used."""

    run_id: str
    device: str
    mode: str
    network: str
    batch: int | None
    precision: str
    engine: str
    source: Source  # of what the board tells; the traffic is modelled
    n_readings: int
    mean_share: float  # of the memory's bandwidth, over the whole trial
    high_share: float
    peak_bytes_per_s: float | None  # of the memory at the clock of the trial
    told_bytes_per_s: float | None  # by the highest reading
    traffic_bytes: int | None  # of one call, fused, as it is counted
    time_s: float
    modelled_bytes_per_s: float | None
    ratio: float | None  # modelled over told


def memory_traffic(dataset: Dataset) -> tuple[MemoryTraffic, ...]:
    """The networks of boards with an activity monitor, by device, network, batch and mode."""
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices, names = device_labels(dataset.all_manifests), network_names(dataset)
    traffic = _traffic_bytes(dataset)
    found = []
    for row in shown_measurements(dataset):
        use = row.conditions.memory_use
        if use is None or use.source != "actmon" or why_unused(row):
            continue
        counted = traffic.get((row.model_hash, row.phase, row.precision, row.batch))
        name = names[network_key(row.model, row.model_hash)]
        found.append(_row(row, use, runs[row.run_id], devices[row.run_id], name, counted))
    return tuple(sorted(found, key=lambda row: (row.device, row.network, row.batch or 0, row.mode)))


def _traffic_bytes(dataset: Dataset) -> Mapping[object, int]:
    """The fused bytes of each scored network; none where a layer's are not known."""
    sums = dataset.layers.group_by("score_id").agg(
        pl.col("fused_traffic_bytes").sum().alias("n_bytes"),
        pl.col("fused_traffic_bytes").null_count().alias("n_unknown"),
    )
    known = {
        row["score_id"]: row["n_bytes"]
        for row in sums.iter_rows(named=True)
        if not row["n_unknown"]
    }
    return {
        (score.model_hash, score.phase, score.precision, score.batch): known[score_id(score)]
        for score in dataset.scores
        if score_id(score) in known
    }


def _row(
    row: Measurement,
    use: MemoryUse,
    run: Manifest,
    device: str,
    network: str,
    counted: int | None,
) -> MemoryTraffic:
    peak, why_no_peak = _peak_bytes_per_s(row, run)
    time_s = median(row.seconds_s)
    told = None if peak is None else peak * use.high_share
    modelled = None if counted is None else counted / time_s
    ratio = modelled / told if modelled is not None and told else None
    not_scored = "it was not scored, or a layer's traffic is not known"
    values = {
        "batch": row.batch,
        "peak_bytes_per_s": peak,
        "told_bytes_per_s": told,
        "traffic_bytes": counted,
        "modelled_bytes_per_s": modelled,
        "ratio": ratio,
    }
    reasons = {
        **dict.fromkeys(("peak_bytes_per_s", "told_bytes_per_s"), why_no_peak),
        **dict.fromkeys(("traffic_bytes", "modelled_bytes_per_s"), not_scored),
        "ratio": not_scored if modelled is None else why_no_peak or "no use was told",
        "batch": "the model does not say which dimension is the batch",
    }
    return MemoryTraffic(
        run_id=row.run_id,
        device=device,
        mode=run.mode_read_back.name,
        network=network,
        precision=row.precision,
        engine=engine_name(row),
        source=row.source,
        n_readings=use.n_readings,
        mean_share=use.mean_share,
        high_share=use.high_share,
        time_s=time_s,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,  # type: ignore[arg-type]  # each has its type above
    )


def _peak_bytes_per_s(row: Measurement, run: Manifest) -> tuple[float | None, str]:
    """The memory's peak at the clock of the trial, or why it is not known."""
    board, clock = run.machine.board, row.conditions.memory_clock_hz
    module = MODULES.get(board.part_number or "") if board is not None else None
    if module is None:
        return None, "the bus of this board's memory is not known"
    if clock is None:
        return None, row.conditions.unknown["memory_clock_hz"]
    if clock.high - clock.low > _MOST_CHANGE * clock.high:
        ends = f"{clock.low / 1e6:.0f} and {clock.high / 1e6:.0f} MHz"
        return None, f"the memory's clock changed between {ends}: a locked one tells bytes"
    return memory_bytes_per_s(module, clock.high), ""
