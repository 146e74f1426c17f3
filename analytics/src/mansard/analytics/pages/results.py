"""All that is computed from a dataset, once, for the report, the summary and the decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import polars as pl

from mansard.analytics.data.accuracies import NetworkAccuracy, by_precision, network_accuracies
from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import network_names, place_in_order
from mansard.analytics.data.published.store import Published, devices_of_rates
from mansard.analytics.decisions.modes import join_modes
from mansard.analytics.decisions.recommend import decide_each, of_one_batch
from mansard.analytics.decisions.records import Recommendation, Wanted
from mansard.analytics.models.energy.fit import EnergyFit, fit_rails
from mansard.analytics.models.predict.engine import SHARE_SCHEMA
from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.analytics.models.predict.group_times import CountedBytes, GroupTimes, group_times
from mansard.analytics.models.predict.measured import (
    measured_generations,
    measured_networks,
    measured_programs,
    prefer_measured,
)
from mansard.analytics.models.predict.memory_use import MemoryTraffic, memory_traffic
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.predict.parts import PartSum, PartTimes, measured_parts, part_sums
from mansard.analytics.models.predict.prediction import Prediction, calibration_of, predict
from mansard.analytics.models.predict.row_times import NetworkTimes, ProgramTimes
from mansard.analytics.models.predict.totals_calibration import Calibration
from mansard.analytics.models.roofs.rates import TrialRate
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.models.sanity.checks import find_faults
from mansard.analytics.models.sanity.finding import Finding, refusals
from mansard.analytics.pages.words.recommendation import in_words
from mansard.core.hardware import boards_called

_RUNS_AT_ONCE = 25  # each has a row for each group: of the zoo in two batch sizes 20,000
_NETWORK_ORDER = ("batch", "precision", "phase", "score_id", "label")
_SHARES = tuple(SHARE_SCHEMA)
_SHORT = {
    "latency_s": "time_s",
    "latency_low_s": "low_s",
    "latency_high_s": "high_s",
    "time_bound": "bound",
}


@dataclass(frozen=True, eq=False)
class Results:
    """Rates, roofs, models and predictions of one dataset.

    ``of_runs``, ``groups`` and ``networks``: under the roofs of each run, of which two may be of
    one mode; see ``groups_of_runs`` and ``networks_of_runs``. ``energies`` and
    ``rail_energies``: the energy fits of each run that was metered, of its total and of each rail.
    The frames of ``data.model_frames`` hold what was measured, published and
    modelled: ``modes``, ``coefficients``, ``predictions`` and ``observations``.
    """

    dataset: Dataset
    rates: tuple[TrialRate, ...]
    roofs: tuple[Roofline, ...]
    of_runs: Prediction
    networks: pl.DataFrame
    names: dict[str, str]
    energies: dict[str, EnergyFit]
    rail_energies: dict[str, dict[str, EnergyFit]]
    published: Published
    modes: pl.DataFrame
    coefficients: pl.DataFrame
    predictions: pl.DataFrame
    decided: pl.DataFrame  # predictions, in their place what was measured of the network itself
    observations: pl.DataFrame
    measured: tuple[NetworkTimes, ...]
    programs: tuple[ProgramTimes, ...]
    generations: tuple[GenerationTimes, ...]
    accuracies: tuple[NetworkAccuracy, ...]
    parts: tuple[PartTimes, ...]  # of networks, run alone; no model uses them
    part_sums: tuple[PartSum, ...]
    group_times: tuple[GroupTimes, ...]  # by accelerator, for schedules
    memory: tuple[MemoryTraffic, ...]  # of boards that report their memory's use
    workload_notes: tuple[str, ...]  # what was measured of networks and is not used
    calibration: Calibration  # by the observations; nothing here is calibrated by it
    recommendations: tuple[Recommendation, ...]
    findings: tuple[Finding, ...]  # what cannot be true; nothing serious is recommended from

    @cached_property
    def groups(self) -> pl.DataFrame:
        """Group by group under ``roofs``; made when asked for, for a page draws few of many."""
        return groups_of_runs(self.of_runs)

    def labels(self) -> dict[str, str]:
        """The label of each run."""
        return {roof.run_id: roof.label for roof in self.roofs}


def compute(
    dataset: Dataset,
    wanted_modes: Sequence[pl.DataFrame] = (),
    counted: Sequence[CountedBytes] = (),
) -> Results:
    """Everything, from raw rows; the same rows always give the same results.

    ``wanted_modes`` (each MODE_SCHEMA): modes to predict beside those that were measured or
    published. ``counted``: what counters say of networks' traffic.
    """
    models = find_models(dataset)
    modes = _with_wanted(models.modes, wanted_modes)
    prediction = predict(models, modes=modes, fill_gaps=bool(wanted_modes))
    of_runs = predict(models, each_run=True)
    findings = find_faults(models)
    scored = prediction.scores["score_id"].to_list()
    decided = prefer_measured(prediction)
    refused = refusals(findings, decided, scored, needs_energy=True)
    decisions = decide_each(
        of_one_batch(decided),
        modes,
        Wanted(falls_back=True),
        refused=refused,
        accuracies_of=partial(
            by_precision, network_accuracies(dataset), observations=models.observations
        ),
        unbounded=devices_of_rates(models.published),
    )
    return Results(
        dataset=dataset,
        rates=models.rates,
        roofs=models.roofs,
        of_runs=of_runs,
        networks=networks_of_runs(of_runs),
        names=network_names(dataset),
        energies=models.energies,
        rail_energies={
            roof.run_id: fit_rails(dataset, roof)
            for roof in models.roofs
            if roof.run_id in models.energies
        },
        published=models.published,
        modes=modes,
        coefficients=prediction.coefficients,
        predictions=prediction.predictions,
        decided=decided,
        observations=models.observations,
        measured=measured_networks(dataset, prediction.predictions),
        programs=measured_programs(dataset),
        generations=measured_generations(dataset),
        accuracies=network_accuracies(dataset),
        parts=measured_parts(dataset),
        part_sums=part_sums(dataset),
        group_times=group_times(dataset, counted=counted),
        memory=memory_traffic(dataset),
        workload_notes=models.notes,
        calibration=calibration_of(models),
        recommendations=tuple(map(in_words, decisions)),
        findings=findings,
    )


def _with_wanted(modes: pl.DataFrame, wanted_modes: Sequence[pl.DataFrame]) -> pl.DataFrame:
    if not wanted_modes:
        return modes
    joined = []
    for (device,), frame in pl.concat(wanted_modes).group_by("device", maintain_order=True):
        known = modes.filter(pl.col("device") == device)
        boards = boards_called(str(device))
        joined.append(join_modes(frame, known, boards=boards, are_explicit=False).modes)
    new = pl.concat(joined).join(modes, on=["device", "mode"], how="anti")
    return pl.concat([modes, new.unique(["device", "mode"], maintain_order=True)])


def groups_of_runs(prediction: Prediction) -> pl.DataFrame:
    """GROUP_ROW_SCHEMA of a ``predict(…, each_run=True)``.

    With run_id and label for device and mode, and model, batch, precision and phase.
    """
    same = prediction.scores.select(
        "score_id", "model", "model_hash", "batch", "precision", "phase"
    )
    rows = predict_groups(prediction.groups, prediction.coefficients, prediction.modes)
    groups = _by_run(prediction, rows.join(same, on="score_id"))
    return groups.sort("score_id", "run_id", "group")


def networks_of_runs(prediction: Prediction) -> pl.DataFrame:
    """Every network under the roofs of every run, of a ``predict(…, each_run=True)``.

    With run_id and label for device and mode. PREDICTION_SCHEMA, where the latency is called
    time_s, low_s and high_s and its bound ``bound``, SCORE_SCHEMA, and

    - n_groups: those that work, move or start something
    - least_s: what is known of it takes, also where the time is unknown
    - memory_share, bound_share: of the time, in groups bound by memory, and by ``bound``; null
      where there is no such share, as of a power limit
    - intensity: FLOP/byte; attainable_flop_per_s: work over time
    """
    predicted, scores = prediction.predictions, prediction.scores
    more = [name for name in scores.columns if name not in predicted.columns]
    work, traffic, time = pl.col("work_flop"), pl.col("traffic_bytes"), pl.col("time_s")
    spent = pl.sum_horizontal(_SHARES, ignore_nulls=False)
    in_bound = pl.coalesce(
        pl.when(pl.col("bound") == name.removesuffix("_s")).then(name) for name in _SHARES
    )
    networks = (
        predicted.rename(_SHORT)
        .join(scores.select("score_id", *more), on="score_id", maintain_order="left")
        .join(_group_totals(prediction), on=["mode", "score_id"], how="left", maintain_order="left")
        .with_columns(pl.col("n_groups", "least_s").fill_null(0))
        .with_columns(
            memory_share=pl.when(spent > 0).then(pl.col("memory_s") / spent),
            bound_share=pl.when(spent > 0).then(in_bound / spent),
            intensity=pl.when(traffic > 0).then(work / traffic),
            attainable_flop_per_s=pl.when(time > 0).then(work / time),
        )
        .drop(_SHARES)
    )
    rows = _by_run(prediction, networks)
    place = place_in_order(rows["model"])
    return rows.sort(place, *_NETWORK_ORDER, nulls_last=True, maintain_order=True)


def _group_totals(prediction: Prediction) -> pl.DataFrame:
    """By mode and score: the number of groups and the sum of ``least_s``; some runs at a time."""
    modes = prediction.modes
    pieces = [
        predict_groups(prediction.groups, prediction.coefficients, modes.slice(at, _RUNS_AT_ONCE))
        .group_by("mode", "score_id")
        .agg(pl.len().cast(pl.Int64).alias("n_groups"), pl.col("least_s").sum())
        for at in range(0, max(1, len(modes)), _RUNS_AT_ONCE)
    ]
    return pl.concat(pieces)


def _by_run(prediction: Prediction, frame: pl.DataFrame) -> pl.DataFrame:
    roofs = prediction.models.roofs
    labels = pl.DataFrame(
        {"mode": [roof.run_id for roof in roofs], "label": [roof.label for roof in roofs]},
        schema={"mode": pl.String, "label": pl.String},
    )
    return frame.drop("device").join(labels, on="mode").rename({"mode": "run_id"})
