"""What Mansard predicts of recorded stages: at best, and calibrated by some of the recordings."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from language_models.recordings import Recorded
from mansard import api
from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.data.published.importing import Imported
from mansard.analytics.data.published.origin import table_id_of
from mansard.analytics.data.published.store import write_published
from mansard.core.errors import InputError
from mansard.core.records import ModelScore, PublishedRun
from mansard.estimator import Given, Settings
from mansard.estimator.decoding import Stage, with_stage
from mansard.estimator.scoring import load_network, score_loaded


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Predicted seconds and watts of a stage in a mode; None where nothing is predicted."""

    time_s: float | None
    low_s: float | None
    high_s: float | None
    power_w: float | None


def stage_of(row: Recorded) -> Stage:
    """The stage that a recording is of."""
    kind, n_tokens = row.stage.split()
    return Stage(1, int(n_tokens)) if kind == "decode" else Stage(int(n_tokens), 0)


@cache
def score(model: str, stage: Stage, batch: int) -> ModelScore:
    """What a stage needs."""
    loaded = load_network(model)
    given, _ = with_stage(loaded, Given(batch=batch), stage)
    return score_loaded(loaded, Settings(given, kv_cache="in-place"))


def network(row: Recorded) -> str:
    """How predictions call it."""
    return f"{row.model} [{row.stage}]"


def _published(rows: Iterable[Recorded]) -> Imported:
    """``rows`` of one board as a table of runs."""
    records = []
    for number, row in enumerate(rows, start=1):
        modes = {rate.mode.name: rate.mode for rate in hardware_rates(row.board).rates}
        unknown = {"remark": "none", "method": "see SOURCES.md"}
        records.append(
            PublishedRun(
                table_id="",
                row=number,
                device=row.board,
                processor="gpu",
                citation=row.author,
                mode=modes[row.mode],
                network=network(row),
                batch=row.batch,
                precision=score(row.model, stage_of(row), row.batch).precision,
                phase="inference",
                latency_s=row.time_s,
                power_w=row.power_w,
                figures={},
                method=None,
                remark=None,
                unknown=unknown if row.power_w else {**unknown, "power_w": "not metered"},
            )
        )
    table_id = table_id_of(records)
    return Imported(table_id, runs=tuple(replace(one, table_id=table_id) for one in records))


def predictions(
    wanted: Sequence[Recorded], known: Sequence[Recorded] = ()
) -> dict[tuple[str, str], Estimate]:
    """By network and mode, of ``wanted`` on one board; calibrated by ``known`` where there are any.

    Empty where ``known`` does not allow a calibration.
    """
    stages = {stage_of(row) for row in wanted}
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        write_published(runs, hardware_rates(wanted[0].board))
        if known:
            write_published(runs, _published(known))
        request = api.PredictionRequest(
            runs=(folder,),
            networks=tuple(
                api.NetworkRequest(name=m) for m in dict.fromkeys(r.model for r in wanted)
            ),
            prompts=tuple(sorted(s.n_new for s in stages if not s.n_cached)) or (512,),
            contexts=tuple(sorted(s.n_cached for s in stages if s.n_cached)) or (512,),
            calibrate=bool(known),
        )
        try:
            frame = api.predict(request).predictions
        except InputError:
            return {}
    return {(row["network"], row["mode"]): _estimate(row) for row in frame.to_dicts()}


def _estimate(row: dict[str, float | None]) -> Estimate:
    names = ("latency_s", "latency_low_s", "latency_high_s", "power_w")
    return Estimate(
        **dict(zip(("time_s", "low_s", "high_s", "power_w"), (row[n] for n in names), strict=True))
    )


def traffic_bytes(row: Recorded) -> float:
    """What a stage reads and writes, fused."""
    layers = score(row.model, stage_of(row), row.batch).layers
    return float(sum(layer.fused_traffic_bytes or 0 for layer in layers))


def bandwidth(row: Recorded) -> float:
    """The memory's bandwidth in the mode of a recording, B/s."""
    return next(
        rate.value
        for rate in hardware_rates(row.board).rates
        if rate.mode.name == row.mode and rate.quantity == "bandwidth"
    )
