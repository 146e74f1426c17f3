"""Layers that an engine timed: beside the groups of a score, and as what calibrates totals.

An engine fuses in its own way: a layer may be several groups, and a group several layers. What
shares a layer or a group is one row, with the sum of the times. Time of layers without a node that
works (reformats, and what the engine put in itself) belongs to no group: it is a share of all.

Where an engine timed layers, their classes of operators calibrate totals instead of the roofs:

T = Σ over groups of (a · work / peak + b · traffic / bandwidth) + launches · λ, with a and b of the
group's class and λ the cost of a launch. The line of ``totals_fit`` goes through these sums then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_SCHEMA
from mansard.analytics.data.names import device_labels, engine_name, network_key, network_names
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.predict.class_fit import (
    TIMED_SCHEMA,
    ClassFactors,
    ClassFit,
    fit_classes,
)
from mansard.analytics.models.predict.engine import SHARE_SCHEMA, predict_scores
from mansard.analytics.models.predict.group_rows import predict_groups
from mansard.analytics.models.predict.groups import WORK, is_fused, terms
from mansard.analytics.models.predict.models import Models
from mansard.analytics.models.scaling.above_roofs import ModePeaksTable, judge_layers
from mansard.analytics.models.scaling.observations import counted_measurements
from mansard.analytics.models.scaling.use_of_rows import single_thread_s
from mansard.core.records import LayerTime

_SETTING = ("network", "batch", "precision", "phase")
# What disturbs a profiled call only lengthens it: of the calls the lower quartile counts.
_QUANTILE = 0.25
_OF_GROUP = ("op_class", "roof_s", "n_launches")
# A group of a layer; ``group`` and ``score_id`` say which.
LAYER_GROUP_SCHEMA: FrameSchema = {
    **{name: kind for name, kind in TIMED_SCHEMA.items() if name not in _OF_GROUP},
    "phase": pl.String,
    "engine": pl.String,
    "score_id": pl.String,
    "group": pl.Int64,
}
# Seconds of each score at the roofs of a mode, by the class of halves of its groups.
ROOF_SCHEMA: FrameSchema = {
    "device": pl.String,
    "mode": pl.String,
    "score_id": pl.String,
    "op_class": pl.String,
    "roof_s": pl.Float64,
}


@dataclass(frozen=True)
class JoinedLayers:
    """``parts``: seconds of a call and the groups that they are of; ``other_s``: of none."""

    parts: tuple[tuple[float, tuple[int, ...]], ...]
    other_s: float


def join_layers(
    layers: Sequence[LayerTime], group_of: Mapping[int, int], call_s: float | None = None
) -> JoinedLayers:
    """``layers`` of a call beside groups. ``group_of``: the group of each node that works.

    ``call_s``: seconds of a call without a profile, to which all layers together are scaled: what
    profiling and other load add to each is not the network's.
    """
    parent: dict[int, int] = {}

    def root(group: int) -> int:
        while parent.setdefault(group, group) != group:
            group = parent[group]
        return group

    timed: list[tuple[float, int]] = []
    other_s = 0.0
    for layer in layers:
        seconds = float(np.quantile(layer.seconds_s, _QUANTILE)) if layer.seconds_s else 0.0
        known = list(dict.fromkeys(group_of[n] for n in layer.nodes or () if n in group_of))
        if not known:
            other_s += seconds
            continue
        for group in known[1:]:
            parent[root(group)] = root(known[0])
        timed.append((seconds, root(known[0])))
    members: dict[int, list[int]] = {}
    for group in sorted(parent):
        members.setdefault(root(group), []).append(group)
    sums = dict.fromkeys(members, 0.0)
    for seconds, group in timed:
        sums[root(group)] += seconds
    total_s = sum(sums.values()) + other_s
    scale = call_s / total_s if call_s is not None and total_s > 0 else 1.0
    return JoinedLayers(
        tuple((scale * sums[head], tuple(groups)) for head, groups in members.items()),
        scale * other_s,
    )


@dataclass(frozen=True, eq=False)
class TimedNetworks:
    """What engines took layer by layer.

    ``rows``: TIMED_SCHEMA with phase and engine, of the halves of groups. ``roofs``: ROOF_SCHEMA
    of the observed networks in the modes that were measured. ``placed``: LAYER_GROUP_SCHEMA, the
    groups of each layer. ``other_share``: of the time in no group, by device, phase and engine.
    """

    rows: pl.DataFrame
    roofs: pl.DataFrame
    other_share: Mapping[tuple[str, str, str], float]
    placed: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=LAYER_GROUP_SCHEMA))


def timed_networks(
    models: Models,
    layers: pl.DataFrame,
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
) -> TimedNetworks | None:
    """The measurements of ``models`` with a profile, beside ``scores``; None where there is none.

    ``layers`` (LAYER_SCHEMA), ``groups`` and ``scores`` (SCORE_SCHEMA) are of the same networks,
    ``coefficients`` and ``modes`` of their devices. Networks that were not observed are left out.
    """
    rows: list[dict[str, object]] = []
    times_s: dict[tuple[str, str, str], tuple[float, float]] = {}  # in no group, and of all layers
    found = list(_profiled(models, _known(scores)))
    if not found:
        return None
    observed = scores.filter(pl.col("network").is_in(list(models.observed_networks())))
    groups = groups.join(observed, on="score_id", how="semi", maintain_order="left")
    busy = groups.filter(pl.col("n_launches") > 0)
    group_of = _groups_of(layers, busy, {score_id for _, score_id, *_ in found})
    for same, score_id, profile, call_s in found:
        joined = join_layers(profile, group_of.get(score_id, {}), call_s)
        total_s = sum(seconds for seconds, _ in joined.parts) + joined.other_s
        place = (str(same["device"]), str(same["phase"]), str(same["engine"]))
        other_s, all_s = times_s.get(place, (0.0, 0.0))
        times_s[place] = (other_s + joined.other_s, all_s + total_s)
        rows += [
            {**same, "score_id": score_id, "layer": at, "group": group, "measured_s": seconds}
            for at, (seconds, own) in enumerate(joined.parts)
            for group in own
        ]
    other_share = {
        place: other_s / all_s if all_s > 0 else 0.0 for place, (other_s, all_s) in times_s.items()
    }
    timed = pl.DataFrame(rows, schema=LAYER_GROUP_SCHEMA)
    simulated = models.observations.filter(source="simulated")["device"].unique().to_list()
    on_boards = pl.col("device").is_in(simulated).not_()
    judged = judge_layers(
        timed.filter(on_boards), groups, ModePeaksTable(modes, coefficients), models.claims
    )
    timed = pl.concat([judged, timed.filter(~on_boards)])
    return at_roofs(timed, groups, coefficients, modes, other_share)


def at_roofs(
    timed: pl.DataFrame,
    groups: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    other_share: Mapping[tuple[str, str, str], float],
) -> TimedNetworks:
    """``timed`` (LAYER_GROUP_SCHEMA) with what work and traffic of each group take at the roofs."""
    where = modes.join(timed, on=["device", "mode"], how="semi")
    of_roofs = coefficients.filter(pl.col("quantity") != "launch")
    by_group = predict_groups(terms(groups), of_roofs, where).rename({"time_s": "roof_s"})
    place = ["device", "mode", "score_id"]
    own = by_group.select(*place, "group", *_OF_GROUP)
    # In the order of the groups: a sum over classes in another order is another number.
    sums = by_group.group_by(*place, "op_class", maintain_order=True).agg(pl.col("roof_s").sum())
    return TimedNetworks(
        rows=timed.join(own, on=[*place, "group"], maintain_order="left_right").select(
            *TIMED_SCHEMA, "phase", "engine"
        ),
        roofs=sums.select(list(ROOF_SCHEMA)),
        other_share=other_share,
        placed=timed,
    )


def _profiled(
    models: Models, known: Mapping[tuple[object, ...], str]
) -> Iterator[tuple[dict[str, object], str, Sequence[LayerTime], float | None]]:
    """What each measurement is of, its score, its layers, and the CPU time of a call."""
    dataset = models.dataset
    runs = {run.run_id: run for run in dataset.workload_manifests}
    devices, names = device_labels(dataset.all_manifests), network_names(dataset)
    for row in counted_measurements(dataset):
        name = names[network_key(row.model, row.model_hash)]
        score_id = known.get((name, row.batch, row.precision, row.phase))
        device = devices[row.run_id]
        if not row.layers or score_id is None or device not in models.devices:
            continue
        mode = runs[row.run_id].mode_read_back.name
        same: dict[str, object] = {"device": device, "mode": mode, "engine": engine_name(row)}
        setting = (name, row.batch, row.precision, row.phase)
        same |= dict(zip(_SETTING, setting, strict=True))
        yield same, score_id, row.layers, single_thread_s(row)


def _known(scores: pl.DataFrame) -> dict[tuple[object, ...], str]:
    """The first score of each setting."""
    first = scores.unique(_SETTING, keep="first", maintain_order=True)
    return {tuple(key): score_id for *key, score_id in first.select(*_SETTING, "score_id").rows()}


def _groups_of(
    layers: pl.DataFrame, busy: pl.DataFrame, score_ids: set[str]
) -> dict[str, dict[int, int]]:
    """For each score the group of each node that is in one that works."""
    placed = (
        layers.filter(pl.col("score_id").is_in(list(score_ids)))
        .with_columns(is_fused=is_fused())
        .select(
            "score_id",
            "index",
            group=pl.when("is_fused").then("fused_group").otherwise("index"),
        )
        .join(busy, on=["score_id", "group"], how="semi")
    )
    return {
        str(score_id): dict(part.select("index", "group").iter_rows())
        for (score_id,), part in placed.partition_by("score_id", as_dict=True).items()
    }


PLACE = ("mode", "score_id")
_SHOWN = 8  # factors in a note


@dataclass(frozen=True, eq=False)
class TimedClasses:
    """The classes of one device, phase and engine; ``roofs``: ROOF_SCHEMA of the device."""

    fit: ClassFit
    roofs: pl.DataFrame
    engine: str
    other_share: float  # of the layers' time in no group

    def note(self, device: str) -> str:
        """What was timed, the factors of the classes with most groups, and the cost of a launch."""
        fit, launch_us = self.fit, self.fit.all_networks.launch_s * 1e6
        by_groups = sorted(fit.records, key=lambda record: -record.n_groups)
        shown = [
            f"{group.op_class} × {group.value:.2g}"
            for group in by_groups
            if group.value is not None
        ]
        return (
            f"{device}: {counted(len(fit.networks), 'network')} timed layer by layer by "
            f"{self.engine}, {counted(fit.n_groups, 'term')} (work or traffic of a group); "
            "factors of the roof: "
            f"{', '.join(shown[:_SHOWN])}; a launch takes {launch_us:.2g} µs; "
            f"{self.other_share:.1%} of the layers' time is the engine's own"
        )

    def factors_without(self, network: str) -> ClassFactors | None:
        """Of all other networks; None where no layers of others were timed."""
        if network not in self.fit.networks:
            return self.fit.all_networks
        return self.fit.without.get(network)

    def rescaled(self, pairs: pl.DataFrame, factors: ClassFactors) -> pl.DataFrame:
        """``pairs`` (PAIR_SCHEMA and score_id) with work and traffic as the classes have them."""
        terms = self.roofs.join(
            pairs.select(*PLACE, "precision").unique(maintain_order=True),
            on=list(PLACE),
            nulls_equal=True,
            maintain_order="left_right",
        )
        kinds = terms.select("op_class", "precision").unique(maintain_order=True)
        known = kinds.with_columns(
            factor=pl.Series(
                [factors.factor(*kind) for kind in kinds.iter_rows()], dtype=pl.Float64
            )
        )
        seconds = pl.col("roof_s") * pl.col("factor")
        is_work = pl.col("op_class").str.ends_with(f" {WORK}")
        sums = (
            terms.join(known, on=["op_class", "precision"], nulls_equal=True, maintain_order="left")
            .group_by(PLACE, maintain_order=True)
            .agg(work_s=seconds.filter(is_work).sum(), traffic_s=seconds.filter(~is_work).sum())
        )
        return with_sums(pairs, sums)


def with_sums(pairs: pl.DataFrame, sums: pl.DataFrame) -> pl.DataFrame:
    """``pairs`` (PAIR_SCHEMA and score_id) with the ``work_s`` and ``traffic_s`` of ``sums``.

    They are stretched as the latency of a pair is over its shares, by a power limit.
    """
    spent = pl.sum_horizontal(*SHARE_SCHEMA)
    stretch = pl.when(spent > 0).then(pl.col("latency_s") / spent).otherwise(1.0)
    return (
        pairs.join(sums, on=list(PLACE), how="left", maintain_order="left")
        .with_columns(latency_s=(pl.col("work_s") + pl.col("traffic_s")) * stretch)
        .with_columns(compute_s="work_s", memory_s="traffic_s", launch_s=pl.lit(0.0))
        .select(pairs.columns)
    )


def fit_timed_classes(
    timed: TimedNetworks, device: str, phase: str, engine: str
) -> TimedClasses | None:
    """Of what one engine took on one device; None where too few layers were timed."""
    fit = fit_classes(timed.rows.filter(device=device, phase=phase, engine=engine))
    if fit is None:
        return None
    roofs = timed.roofs.filter(device=device)
    return TimedClasses(fit, roofs, engine, timed.other_share.get((device, phase, engine), 0.0))


def predict_by_classes(
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    classes: Mapping[tuple[str, str], TimedClasses],
) -> pl.DataFrame:
    """As ``predict_scores`` with shares, by the classes of each device and phase that has them.

    What a launch takes is left to the line.
    """
    of_roofs = coefficients.filter(pl.col("quantity") != "launch")
    parts_of = terms(groups)
    parts = [pl.DataFrame(schema={**PREDICTION_SCHEMA, **SHARE_SCHEMA})]
    for (device, phase), each in classes.items():
        own_modes = modes.filter(device=device)
        of_phase = scores.filter(pl.col("phase") == phase)
        for (precision,), some in of_phase.partition_by("precision", as_dict=True).items():
            factors = {
                name: each.fit.all_networks.factor(name, str(precision))
                for name in parts_of["op_class"].unique().to_list()
            }
            own = parts_of.join(some, on="score_id", how="semi", maintain_order="left")
            found = predict_scores(
                own, some, of_roofs, own_modes, efficiency=factors, with_shares=True
            )
            parts.append(found.collect())
    return pl.concat(parts)
