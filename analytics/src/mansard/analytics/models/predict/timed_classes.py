"""Classes of operators where an engine timed layers: what calibrates totals instead of the roofs.

T = Σ over groups of (a · work / peak + b · traffic / bandwidth) + launches · λ, with a and b of the
group's class and λ the cost of a launch. The line of ``totals_lines`` goes through these sums then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.model_frames import PREDICTION_SCHEMA
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.predict.class_fit import ClassFactors, ClassFit, fit_classes
from mansard.analytics.models.predict.engine import SHARE_SCHEMA, predict_scores
from mansard.analytics.models.predict.groups import WORK, halves
from mansard.analytics.models.predict.layer_groups import TimedNetworks

_PLACE = ("mode", "score_id")
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
        by_groups = sorted(fit.records, key=lambda each: -each.n_groups)
        shown = [
            f"{each.op_class} × {each.value:.2g}" for each in by_groups if each.value is not None
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
            pairs.select(*_PLACE, "precision").unique(), on=list(_PLACE), nulls_equal=True
        )
        kinds = terms.select("op_class", "precision").unique()
        known = kinds.with_columns(
            factor=pl.Series(
                [factors.factor(*kind) for kind in kinds.iter_rows()], dtype=pl.Float64
            )
        )
        seconds = pl.col("roof_s") * pl.col("factor")
        is_work = pl.col("op_class").str.ends_with(f" {WORK}")
        sums = (
            terms.join(known, on=["op_class", "precision"], nulls_equal=True)
            .group_by(_PLACE)
            .agg(work_s=seconds.filter(is_work).sum(), traffic_s=seconds.filter(~is_work).sum())
        )
        spent = pl.sum_horizontal(*SHARE_SCHEMA)
        stretch = pl.when(spent > 0).then(pl.col("latency_s") / spent).otherwise(1.0)
        return (
            pairs.join(sums, on=list(_PLACE), how="left", maintain_order="left")
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
    halved = halves(groups)
    parts = [pl.DataFrame(schema={**PREDICTION_SCHEMA, **SHARE_SCHEMA})]
    for (device, phase), each in classes.items():
        own_modes = modes.filter(device=device)
        of_phase = scores.filter(pl.col("phase") == phase)
        for (precision,), some in of_phase.partition_by("precision", as_dict=True).items():
            factors = {
                name: each.fit.all_networks.factor(name, str(precision))
                for name in halved["op_class"].unique().to_list()
            }
            own = halved.join(some, on="score_id", how="semi")
            found = predict_scores(
                own, some, of_roofs, own_modes, efficiency=factors, with_shares=True
            )
            parts.append(found.collect())
    return pl.concat(parts)
