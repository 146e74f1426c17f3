"""Calibration by the shapes of operators: where the zoo's operators were timed on a device.

Time at the roof of each group, work and traffic apart, times the factors that ``operator_times``
has for its shape; a line of ``totals_fit`` goes through the sums, as through those of classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.model_frames import GROUP_SCHEMA, PREDICTION_SCHEMA
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.predict.engine import SHARE_SCHEMA, predict_scores
from mansard.analytics.models.predict.gaussian_process import Array
from mansard.analytics.models.predict.groups import TRAFFIC, WORK, halves
from mansard.analytics.models.predict.operator_shapes import SHAPE_SCHEMA, group_shapes
from mansard.analytics.models.predict.operator_times import (
    OperatorTimes,
    TimedOperator,
    fit_operator_times,
)
from mansard.analytics.models.predict.timed_layers import PLACE, with_sums
from mansard.analytics.models.predict.timed_operators import (
    operator_frame,
    operators_of,
    timed_frame,
)
from mansard.estimator.zoo.operators import NAMES as OPERATOR_NAMES

_MOST_LAYERS = 200  # of networks, beside the operators: the fit takes the cube of their number


@dataclass(frozen=True, eq=False)
class TimedShapes:
    """The operators of one device, phase and engine.

    ``timed``: with the network of each in ``networks``; ``operators``: OPERATOR_SCHEMA of the
    measured networks in the measured modes.
    """

    times: OperatorTimes
    timed: Sequence[TimedOperator]
    networks: Sequence[str]
    operators: pl.DataFrame

    @property
    def n_designed(self) -> int:
        """The zoo's operators among them."""
        return sum(name in OPERATOR_NAMES for name in self.networks)

    def note(self, device: str) -> str:
        """What was timed."""
        return (
            f"{device}: by the shapes of {counted(self.n_designed, 'timed operator')} and of "
            f"{counted(len(self.networks) - self.n_designed, 'layer')} of networks; a launch takes "
            f"{self.times.launch_s * 1e6:.2g} µs"
        )

    def has_all(self, networks: Iterable[str]) -> bool:
        """Whether all of ``networks`` are the zoo's operators."""
        return set(networks) <= set(OPERATOR_NAMES)

    def to_fit(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """``pairs`` that were rescaled, with the times that a line goes through.

        The measured ones of networks. Where only operators were measured, the sums themselves: a
        line through files of operators is further from networks (docs/understand/calibration.md).
        """
        if not self.has_all(pairs["network"]):
            return pairs
        launches_s = pl.col("n_launches") * self.times.launch_s
        return pairs.with_columns(measured_s=pl.col("latency_s") + launches_s)

    def without(self, network: str) -> OperatorTimes | None:
        """The times of the operators of all other networks."""
        rest = [row for row, name in zip(self.timed, self.networks, strict=True) if name != network]
        return self.times if len(rest) == len(self.timed) else fit_operator_times(rest, self.times)

    def rescaled(self, pairs: pl.DataFrame, times: OperatorTimes) -> pl.DataFrame:
        """``pairs`` (PAIR_SCHEMA and score_id) with work and traffic as the shapes have them."""
        frame = self.operators.join(pairs, on=list(PLACE), how="semi", maintain_order="left")
        works, moves = times.factors(operators_of(frame, ""))
        sums = (
            frame.select(
                *PLACE,
                work_s=pl.col("work_s") * works,
                traffic_s=pl.col("traffic_s") * moves,
            )
            .group_by(PLACE, maintain_order=True)
            .agg(pl.col("work_s", "traffic_s").sum())
        )
        return with_sums(pairs, sums)


def networks_first(pairs: pl.DataFrame) -> pl.DataFrame:
    """``pairs`` without the zoo's operators, where networks were measured on the same device.

    Side by side in one file operators run otherwise than in a network, and are many: a line through
    both is further from networks, and errors of operators say little of theirs.
    """
    networks = pairs.filter(~pl.col("network").is_in(OPERATOR_NAMES))
    return pl.concat([networks, pairs.join(networks, on=["device", "phase"], how="anti")])


def fit_timed_shapes(
    placed: pl.DataFrame,
    layers: pl.DataFrame,
    groups: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
) -> dict[tuple[str, str, str], TimedShapes]:
    """By device, phase and engine; only where the zoo's operators were timed.

    ``placed``: LAYER_GROUP_SCHEMA; ``layers`` and ``groups`` of the measured networks.
    """
    designed = placed.filter(pl.col("network").is_in(OPERATOR_NAMES))
    if designed.is_empty():
        return {}
    placed = placed.join(
        designed, on=["device", "phase", "engine", "precision"], how="semi", maintain_order="left"
    )
    where = modes.join(placed, on=["device", "mode"], how="semi")
    seen = groups.join(placed, on="score_id", how="semi", maintain_order="left")
    operators = operator_frame(group_shapes(layers, seen), seen, coefficients, where)
    shapes = {}
    parts = timed_frame(placed, operators).partition_by("device", "phase", "engine", as_dict=True)
    for (device, phase, engine), rows in parts.items():
        chosen = _chosen(rows)
        timed = operators_of(chosen, "")
        times = fit_operator_times(timed)
        if times is not None:
            shapes[str(device), str(phase), str(engine)] = TimedShapes(
                times, timed, chosen["network"].to_list(), operators.filter(device=device)
            )
    return shapes


def _chosen(rows: pl.DataFrame) -> pl.DataFrame:
    """The designed operators, and of the layers of networks as many as stay cheap, at random."""
    is_designed = pl.col("network").is_in(OPERATOR_NAMES)
    layers = rows.filter(~is_designed)
    kept = layers.sample(min(_MOST_LAYERS, layers.height), seed=0)
    return pl.concat([rows.filter(is_designed), kept])


def predict_by_shapes(
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
    shapes: Mapping[tuple[str, str], TimedShapes],
) -> pl.DataFrame:
    """As ``predict_scores`` with shares, by the shapes of each device and phase that has them.

    ``groups`` have the columns of SHAPE_SCHEMA too.
    """
    of_roofs = coefficients.filter(pl.col("quantity") != "launch")
    parts = [pl.DataFrame(schema={**PREDICTION_SCHEMA, **SHARE_SCHEMA})]
    for (device, phase), fitted in shapes.items():
        where = modes.filter(device=device)
        some = scores.filter(pl.col("phase") == phase)
        own = groups.join(some, on="score_id", how="semi", maintain_order="left")
        labelled = own.with_columns(op_class=pl.format("{}:{}", "score_id", "group"))
        frame = operator_frame(
            own.select(list(SHAPE_SCHEMA)), own.select(list(GROUP_SCHEMA)), of_roofs, where.head(1)
        )
        works, moves = fitted.times.factors(operators_of(frame, ""))
        factors = dict(_labelled(frame, works, moves))
        predicted = predict_scores(
            halves(labelled), some, of_roofs, where, efficiency=factors, with_shares=True
        )
        parts.append(predicted.collect())
    return pl.concat(parts)


def _labelled(frame: pl.DataFrame, works: Array, moves: Array) -> Iterator[tuple[str, float]]:
    for (score_id, group), work, move in zip(
        frame.select("score_id", "group").iter_rows(), works, moves, strict=True
    ):
        yield f"{score_id}:{group} {WORK}", float(work)
        yield f"{score_id}:{group} {TRAFFIC}", float(move)
