"""The memory traffic that a board reports while a network runs, beside the modelled traffic.

The board's activity monitor reports the share of the memory's bandwidth that was in use, by all
clients (``device/conditions/surroundings.py``): share × clock × 2 × bus / 8 are bytes in a second.
Its readings are those in the energy windows, in which the network runs without pause. Modelled are
the fused bytes of the network's score (docs/understand/traffic.md), over the measured time.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import median

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import device_labels, engine_name, network_key, network_names
from mansard.analytics.data.scores import score_id
from mansard.analytics.models.scaling.observations import shown_measurements
from mansard.analytics.models.scaling.use_of_rows import why_unused
from mansard.core.hardware import MODULES, memory_bytes_per_s
from mansard.core.records import Manifest, Measurement, MemoryUse, ModelScore, Record, Source
from mansard.core.text import natural_key

_MOST_CHANGE = 0.02  # of the memory's clock during a trial, for bytes to follow from shares


class MemoryTraffic(Record, frozen=True, kw_only=True):
    """One network in one mode of a board that reports how much its memory is used."""

    run_id: str
    device: str
    mode: str
    network: str
    batch: int | None
    precision: str
    engine: str
    source: Source  # of what the board reports; the traffic is modelled
    n_readings: int
    mean_share: float  # of the memory's bandwidth, in the energy windows
    peak_bytes_per_s: float | None  # of the memory at the clock of the trial
    reported_bytes_per_s: float | None
    traffic_bytes: int | None  # of one call, fused, modelled
    time_s: float
    modelled_bytes_per_s: float | None
    ratio: float | None  # modelled over reported


def memory_traffic(dataset: Dataset) -> tuple[MemoryTraffic, ...]:
    """The networks of boards with an activity monitor, by device, network, batch and mode."""
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices, names = device_labels(dataset.all_manifests), network_names(dataset)
    traffic = _traffic_bytes(dataset)
    scored = [
        (score, traffic[score_id(score)]) for score in dataset.scores if score_id(score) in traffic
    ]
    traffic_rows = []
    for row in shown_measurements(dataset):
        use = row.conditions.memory_use
        if use is None or use.source != "actmon" or why_unused(row):
            continue
        modelled = {n_bytes for score, n_bytes in scored if _is_of(score, row)}
        name = names[network_key(row.model, row.model_hash)]
        traffic_rows.append(_row(row, use, runs[row.run_id], devices[row.run_id], name, modelled))
    return tuple(sorted(traffic_rows, key=_order))


def _order(row: MemoryTraffic) -> tuple[object, ...]:
    return (row.device, natural_key(row.network), row.batch or 0, row.mode)


def _is_of(score: ModelScore, row: Measurement) -> bool:
    """Whether ``score`` is of the network that ``row`` ran: the same graph, sizes and precision."""
    same = ("model_hash", "phase", "precision", "batch", "dimensions")
    return not score.bounds and all(getattr(score, name) == getattr(row, name) for name in same)


def _traffic_bytes(dataset: Dataset) -> dict[str, int]:
    """The fused bytes of each score by its id; none where a layer's are not known."""
    sums = dataset.layers.group_by("score_id").agg(
        pl.col("fused_traffic_bytes").sum().alias("n_bytes"),
        pl.col("fused_traffic_bytes").null_count().alias("n_unknown"),
    )
    return {
        row["score_id"]: row["n_bytes"]
        for row in sums.iter_rows(named=True)
        if not row["n_unknown"]
    }


def _row(
    row: Measurement,
    use: MemoryUse,
    run: Manifest,
    device: str,
    network: str,
    traffic_bytes: Collection[int],
) -> MemoryTraffic:
    """``traffic_bytes``: of the scores of what ran."""
    peak, why_no_peak = peak_bytes_per_s(row, run)
    time_s = median(row.seconds_s)
    reported = None if peak is None else peak * use.mean_share
    n_bytes = next(iter(traffic_bytes)) if len(traffic_bytes) == 1 else None
    modelled = None if n_bytes is None else n_bytes / time_s
    ratio = modelled / reported if modelled is not None and reported else None
    not_scored = "it was not scored with these dimensions, or a layer's traffic is unknown"
    if len(traffic_bytes) > 1:
        not_scored = "its scores differ in traffic, as by the trips of a loop"
    values = {
        "batch": row.batch,
        "peak_bytes_per_s": peak,
        "reported_bytes_per_s": reported,
        "traffic_bytes": n_bytes,
        "modelled_bytes_per_s": modelled,
        "ratio": ratio,
    }
    reasons = {
        **dict.fromkeys(("peak_bytes_per_s", "reported_bytes_per_s"), why_no_peak),
        **dict.fromkeys(("traffic_bytes", "modelled_bytes_per_s"), not_scored),
        "ratio": not_scored if modelled is None else why_no_peak or "no use was reported",
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
        time_s=time_s,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,  # type: ignore[arg-type]  # each has its type above
    )


def peak_bytes_per_s(row: Measurement, run: Manifest) -> tuple[float | None, str]:
    """The memory's peak at the clock of the trial, or why it is not known."""
    board, clock = run.machine.board, row.conditions.memory_clock_hz
    module = MODULES.get(board.part_number or "") if board is not None else None
    if module is None:
        return None, "the bus of this board's memory is unknown"
    if clock is None:
        return None, row.conditions.unknown["memory_clock_hz"]
    if clock.high - clock.low > _MOST_CHANGE * clock.high:
        ends = f"{clock.low / 1e6:.0f} and {clock.high / 1e6:.0f} MHz"
        return None, f"the memory's clock changed between {ends}: only a locked one gives bytes"
    return memory_bytes_per_s(module, clock.high), ""
