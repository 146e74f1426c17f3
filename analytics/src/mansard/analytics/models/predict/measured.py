"""Networks and programs that were run, each beside what is predicted of it.

To decide by, what was measured stands in the place of what is modelled. A prediction from roofs is
a lower bound of the time. In a mode where the network was run, its measured time is used. In other
modes, the fit to its own times and the roofs (calibrated or not) are compared: first by the kind of
interval (spread, bounds, roof), then by its width.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import polars as pl
from msgspec.structs import replace as replaced

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.machines import device_id
from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.analytics.data.names import (
    device_labels,
    engine_name,
    label_text,
    network_key,
    network_names,
)
from mansard.analytics.data.totals import idle_power_w
from mansard.analytics.models.predict.generation_times import GenerationTimes, generation_times
from mansard.analytics.models.predict.prediction import Prediction
from mansard.analytics.models.predict.row_times import (
    NetworkTimes,
    ProgramTimes,
    network_times,
    program_times,
)
from mansard.analytics.models.scaling.network_predict import predict_observed
from mansard.analytics.models.scaling.observations import (
    counted_generations,
    counted_measurements,
    counted_programs,
    network_measurements,
    shown_generations,
    shown_measurements,
    shown_programs,
)
from mansard.core.records import GenerationRun, Measurement, Record
from mansard.core.text import natural_key

_SETTING = attrgetter("device", "network", "precision", "batch", "engine", "mode")
# Kinds of intervals of modelled rows, the most informative first; the width decides within a kind.
_SAYS = {"spread": 0, "bounds": 1, "roof": 2}


def prefer_measured(prediction: Prediction) -> pl.DataFrame:
    """PREDICTION_SCHEMA: ``prediction``, by the networks' own times where these tell more."""
    models = prediction.models
    known = models.of_devices(models.modes)
    return prefer_observed(prediction.predictions, models.observations, known, prediction.modes)


def prefer_observed(
    modelled: pl.DataFrame, observations: pl.DataFrame, known: pl.DataFrame, modes: pl.DataFrame
) -> pl.DataFrame:
    """``prefer_measured`` of frames: predictions in ``modes``, and the ``known`` modes."""
    key = ["mode", *PREDICTION_KEY]
    ran = observations.join(modelled, on=list(PREDICTION_KEY), how="semi", nulls_equal=True)
    observed = predict_observed(ran, known, modes)
    observed = observed.filter(pl.col("latency_s").is_not_null())
    observed = observed.join(modelled, on=key, how="semi", nulls_equal=True)
    both = pl.concat([observed, modelled]).with_columns(
        is_modelled=pl.col("source") == "modelled",
        says=pl.col("interval").replace_strict(_SAYS, default=len(_SAYS), return_dtype=pl.Int64),
        width=(pl.col("latency_high_s") / pl.col("latency_low_s")).fill_null(float("inf")),
    )
    best = both.sort("is_modelled", "says", "width", maintain_order=True, nulls_last=True)
    best = best.unique(key, keep="first", maintain_order=True)
    # The order of the rows stays that of the predictions.
    place = modelled.select(*key, place=pl.int_range(pl.len()))
    best = best.join(place, on=key, how="left", nulls_equal=True).sort("place")
    return best.select(list(PREDICTION_SCHEMA))


def measured_networks(dataset: Dataset, predictions: pl.DataFrame) -> tuple[NetworkTimes, ...]:
    """The networks of ``dataset`` that were run, by device, network, batch, engine and mode.

    ``predictions``: PREDICTION_SCHEMA; only predictions of scored networks are compared. Any other
    prediction is a fit to the same measured times.
    """
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices, names = device_labels(dataset.all_manifests), network_names(dataset)
    scored = predictions.join(dataset.layers, on="score_id", how="semi")
    fields = (*PREDICTION_KEY, "mode")
    known = {tuple(row[name] for name in fields): row for row in scored.iter_rows(named=True)}

    def where(row: Measurement) -> tuple[object, ...]:
        name, mode = names[network_key(row.model, row.model_hash)], runs[row.run_id].mode_read_back
        return (devices[row.run_id], name, row.batch, row.precision, row.phase, mode.name)

    same: dict[tuple[object, ...], list[str]] = {}
    for row in network_measurements(dataset):
        label = runs[row.run_id].label
        same.setdefault((label, engine_name(row), *where(row)), []).append(row.run_id)
    networks = []
    counted = {(row.run_id, row.trial_id) for row in counted_measurements(dataset)}
    for row in shown_measurements(dataset):
        at, label = where(row), runs[row.run_id].label
        setting: dict[str, Any] = dict(zip(fields, at, strict=True))
        key = (label, engine_name(row), *at)
        setting |= {"run_ids": tuple(dict.fromkeys(same[key])), "label": label_text(label)}
        times = network_times(row, setting, idle_power_w(runs[row.run_id]), known.get(at, {}))
        if not times.remark and (row.run_id, row.trial_id) not in counted and row.seconds_s:
            times = replaced(times, remark=_OF_A_LABEL)
        networks.append(times)
    return tuple(sorted(networks, key=reading_order))


def reading_order(row: Record) -> tuple[object, ...]:
    """The key that sorts rows of networks, or of their parts, by fields that both have."""
    device, network, precision, batch, engine, mode = _SETTING(row)
    return (device, natural_key(network), precision, batch or 0, engine, mode)


_OF_A_LABEL = "a newer label counts instead"
_EARLIER = "an earlier version of the program"


def measured_programs(dataset: Dataset) -> tuple[ProgramTimes, ...]:
    """The programs of ``dataset`` that were run, each followed by its windows."""
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices = device_labels(dataset.all_manifests)
    counted = {program.run_id: program for program in counted_programs(dataset)}
    labels = {row.workload: runs[row.run_id].label for row in counted.values()}
    programs = []
    for program in shown_programs(dataset):
        run, remark = runs[program.run_id], ""
        if program.run_id not in counted:
            is_other = labels.get(program.workload, run.label) != run.label
            remark = _OF_A_LABEL if is_other else _EARLIER
        where = (devices[program.run_id], run.mode_read_back.name)
        programs.append(program_times(program, *where, label=run.label, remark=remark))
    programs.sort(key=lambda rows: (rows[0].device, rows[0].workload, rows[0].mode))
    return tuple(row for rows in programs for row in rows)


def measured_generations(dataset: Dataset) -> tuple[GenerationTimes, ...]:
    """The best row of each server, model, lengths, concurrency, mode and label."""
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices = device_labels(dataset.all_manifests)
    counted = {(row.run_id, row.trial_id) for row in counted_generations(dataset)}

    def place(row: GenerationRun) -> tuple[object, ...]:
        run = runs[row.run_id]
        lengths = (row.concurrency, row.prompt_tokens, row.generate_tokens)
        where = (device_id(run), row.workload, row.server, *lengths, run.mode_read_back.name)
        return (*where, run.label)

    return tuple(
        generation_times(
            row,
            devices[row.run_id],
            runs[row.run_id].mode_read_back.name,
            label=runs[row.run_id].label,
            remark="" if (row.run_id, row.trial_id) in counted else _OF_A_LABEL,
        )
        for row in sorted(shown_generations(dataset), key=place)
    )
