"""Calibration by whole networks: from what some of them took in some modes.

Totals cannot tell classes of operators apart; where layers were timed, ``timed_layers`` scales
work and traffic by class first. They give for each device and phase

- a line T = a + b · compute + c · memory + d · launches (``predict.totals_fit``) through the
  measured networks of all modes, and one about it for each of them (``predict.totals_fit``);
- for a network measured in other modes what it is off the line there, and for one measured in
  other batches or precisions half of it;
- where a network was measured, its own time.

Prefill and decode of language models are calibrated apart, from networks and from one another.

Each network by a line of the others, and each mode by the others, say how far a time may be off:
that is its interval. Where few were measured, errors on recorded networks count beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA, PREDICTION_KEY
from mansard.analytics.data.names import stage_columns
from mansard.analytics.data.quantities import counted
from mansard.analytics.data.statistics import pool_repeats, student_quantile
from mansard.analytics.models.predict.engine import NO_LAUNCH
from mansard.analytics.models.predict.timed_layers import (
    TimedClasses,
    TimedNetworks,
    fit_timed_classes,
)
from mansard.analytics.models.predict.timed_shapes import TimedShapes, networks_first
from mansard.analytics.models.predict.totals_fit import PAIR_SCHEMA, Array, TotalsLines
from mansard.core.records import Record

# What such calibrations were off on recorded networks (docs/understand/calibration.md), and as how
# many networks or modes that counts: the square of an error over what the line expects, and the
# square of ln of a time in a mode where nothing was measured.
_NETWORK_PRIOR, _MODE_PRIOR = (1.0, 3), (0.30**2, 3)
NO_SHAPES: Mapping[tuple[str, str, str], TimedShapes] = MappingProxyType({})
# ln of the power of a decode or a prefill over the mean of others in the mode, and as how many
# models that counts (benchmarks/recorded_language_models.py).
_POWER_SPREAD, _POWER_COUNT = 0.2, 3
_KEY = ("mode", *PREDICTION_KEY)
# What ``_times`` says of a row.
_TIMES: FrameSchema = {
    "row": pl.UInt32,
    "time_s": pl.Float64,
    "half": pl.Float64,
    "measured_w": pl.Float64,
    "measured_w_half": pl.Float64,
    "measured_source": pl.String,
    "power_note": pl.String,
}
# Beside PAIR_SCHEMA: the wall time, where it is from, half the widths of its and the power's
# interval, of which score it is, and what ran it.
_OWN = ("reported_s", "measured_source", "measured_half", "measured_w_half")
_FROM = ("score_id", "engine")
_HAS_TIME = pl.col("latency_s").is_finite() & (pl.col("latency_s") > 0)


class Misfit(Record, frozen=True, kw_only=True):
    """|modelled / measured - 1| of whole networks: each batch, precision and mode of one counts."""

    median: float
    nine_of_ten: float
    worst: float
    n_times: int


def _misfit(log: Array) -> Misfit:
    """Of ln measured over modelled, at least one."""
    errors = np.abs(np.expm1(-log))
    return Misfit(
        median=float(np.median(errors)),
        nine_of_ten=float(np.quantile(errors, 0.9)),
        worst=float(errors.max()),
        n_times=len(errors),
    )


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out errors of networks or modes.

    ``logs``: for each, an array of ln(measured / predicted). ``squares``: the mean square of each;
    for networks relative to the deviation that the line expects. ``prior``: the expected mean
    square, and how many networks or modes it counts as.
    """

    logs: tuple[Array, ...]
    squares: tuple[float, ...]
    prior: tuple[float, int]

    @property
    def half(self) -> float:
        """Half the width of the 95 % interval of ln T, by Student's t."""
        (square, count), n = self.prior, len(self.squares)
        scatter = (count * square + sum(self.squares)) / (count + n)
        return student_quantile(count + max(0, n - 1)) * float(np.sqrt(scatter))

    @property
    def misfit(self) -> Misfit | None:
        """None where nothing could be left out."""
        return _misfit(np.concatenate(self.logs)) if self.logs else None

    @property
    def mean_error(self) -> float:
        """The mean of |ln|, every network counting the same."""
        return float(np.mean([np.abs(log).mean() for log in self.logs]))


@dataclass(frozen=True, eq=False)
class DeviceCalibration:
    """The calibration of one device and phase, from times of ``engine``; None: published times.

    ``classes``: the factors that scale the parts of the lines; None if totals alone calibrate;
    ``why`` says why. ``networks`` and ``modes``: leave-one-out errors. ``other_networks``:
    leave-one-out errors of the kind that was not chosen; None if there was no choice.
    """

    lines: TotalsLines
    engine: str | None
    classes: TimedClasses | None
    why: str
    networks: LeftOut
    modes: LeftOut
    before: Misfit  # the roofs
    after: Misfit  # the lines, on the networks that they go through
    other_networks: LeftOut | None
    shapes: TimedShapes | None = None  # that the networks were scaled by, instead of classes
    n_operators: int = 0  # of the zoo's, timed here

    def notes(self, device: str) -> Iterator[str]:
        """What ``device`` is calibrated by, and how far off it is; one line each."""
        times = counted(len(self.lines.pairs), "measured time")
        unseen = self.networks.misfit
        line = (
            f"{device}: calibrated by {times}: median error {self.before.median:.1%} before, "
            f"{self.after.median:.1%} after"
        )
        if unseen is not None:
            line += f", {unseen.median:.1%} on networks it was not fitted to"
            line += f", {unseen.worst:.0%} at worst"
        yield line
        if self.classes is not None:
            yield self.classes.note(device)
        if self.shapes is not None:
            yield self.shapes.note(device)
        if unseen is None:
            yield (
                f"{device}: one network was measured: its error on other networks is estimated "
                "from recorded networks of other boards; measure two more"
            )


# By device and kind: a phase, or the stage of a language model (data.names.stage_columns).
Calibration = Mapping[tuple[str, str], DeviceCalibration]


def place_name(device: str, kind: str) -> str:
    """The name of a calibrated device; the kind is added unless it is inference."""
    return device if kind == "inference" else f"{device} ({kind})"


def calibrate_totals(
    predictions: pl.DataFrame,
    observations: pl.DataFrame,
    modes: pl.DataFrame | None = None,
    timed: TimedNetworks | None = None,
    shapes: Mapping[tuple[str, str, str], TimedShapes] = NO_SHAPES,
) -> Calibration:
    """Lines of all devices and kinds of which ``observations`` are among ``predictions``.

    PREDICTION_SCHEMA with SHARE_SCHEMA and ``n_launches``, and OBSERVATION_SCHEMA, matched by
    device, mode, network, batch, precision and phase; ``modes``: MODE_SCHEMA. Published
    observations count only of networks that were not measured here, and of several engines on a
    device the one that ran the most networks. ``timed``: what was timed layer by layer;
    ``shapes``: of timed operators, by device, phase and engine.
    """
    pairs = networks_first(_pairs(predictions, observations))
    return {
        (str(device), str(kind)): _by_shapes(_calibrate_device(part, modes, timed), part, shapes)
        for (device, kind), part in pairs.partition_by("device", "kind", as_dict=True).items()
    }


def _calibrate_device(
    pairs: pl.DataFrame, modes: pl.DataFrame | None, timed: TimedNetworks | None
) -> DeviceCalibration:
    engine, rows = _of_one_engine(pairs)
    clock_hz = _launch_clocks(rows, modes)
    lines = TotalsLines(rows, clock_hz)
    networks = _networks_left_out(lines.without_each("model"))
    taken, other, why = None, None, "no layers of these networks were timed"
    classes = None
    if timed is not None and engine is not None:
        device, kind = rows.select("device", "kind").row(0)
        classes = fit_timed_classes(timed, device, kind, engine)
        if not timed.rows.filter(device=device, phase=kind, engine=engine).is_empty():
            why = "too few layers of these networks were timed"
    if classes is not None:
        whole = classes.fit.all_networks
        scaled = TotalsLines(classes.rescaled(rows, whole), clock_hz, whole.launch_s)
        by_classes = _networks_left_out(_without_each_network(scaled, rows, classes))
        lost = _why_totals(networks, by_classes)
        if lost is None:
            why = f"layers of {counted(len(classes.fit.networks), 'network')} were timed"
            taken, lines, networks, other = classes, scaled, by_classes, networks
        else:
            why, other = lost, by_classes
    left_modes = tuple(_off(*left)[0] for left in lines.without_each("mode"))
    before = rows.select((pl.col("measured_s") / pl.col("latency_s")).log()).to_series()
    return DeviceCalibration(
        lines=lines,
        engine=engine,
        classes=taken,
        why=why,
        networks=networks,
        modes=LeftOut(left_modes, tuple(float(np.mean(log**2)) for log in left_modes), _MODE_PRIOR),
        before=_misfit(before.to_numpy()),
        after=_misfit(lines.off["off"].to_numpy()),
        other_networks=other if other is not None and other.logs else None,
    )


def _by_shapes(
    fitted: DeviceCalibration,
    pairs: pl.DataFrame,
    shapes: Mapping[tuple[str, str, str], TimedShapes],
) -> DeviceCalibration:
    """``fitted``, or by shapes where these are nearer to networks left out.

    Where fewer than two networks were measured beside the zoo's operators, none can judge, and
    shapes are taken.
    """
    device, kind = pairs.select("device", "kind").row(0)
    own = shapes.get((device, kind, fitted.engine or ""))
    if own is None:
        return fitted
    fitted = replace(fitted, n_operators=own.n_designed)
    _, rows = _of_one_engine(pairs)
    clock_hz, launch_s = fitted.lines.clock_hz, own.times.launch_s
    scaled = own.rescaled(rows, own.times)
    lines = TotalsLines(own.to_fit(scaled), clock_hz, launch_s)
    by_shapes = _networks_left_out(_without_each_shape(lines, rows, own))
    why = "fewer than two networks were measured beside the zoo's operators: none tests the shapes"
    if by_shapes.logs and not own.has_all(rows["network"]):
        why = "the error on networks left out is the smallest by the shapes of timed operators"
        if fitted.networks.logs and fitted.networks.mean_error <= by_shapes.mean_error:
            return fitted
    return replace(
        fitted,
        lines=lines,
        classes=None,
        shapes=own,
        why=why,
        networks=by_shapes,
        after=_misfit(np.log(scaled["measured_s"].to_numpy() / lines.on_line(scaled)[0])),
        other_networks=fitted.networks if fitted.networks.logs else None,
    )


def _without_each_shape(
    lines: TotalsLines, pairs: pl.DataFrame, shapes: TimedShapes
) -> Iterator[tuple[TotalsLines, pl.DataFrame]]:
    """For each network: the line and the times of operators fitted without it, and its own rows."""
    for name in pairs["network"].unique(maintain_order=True):
        times, is_left_out = shapes.without(name), pl.col("network") == name
        if times is not None and not pairs.filter(~is_left_out).is_empty():
            rows = shapes.rescaled(pairs, times)
            others = shapes.to_fit(rows.filter(~is_left_out))
            yield (
                TotalsLines(others, lines.clock_hz, lines.launch_s, lines),
                rows.filter(is_left_out),
            )


def _why_totals(totals: LeftOut, classes: LeftOut) -> str | None:
    """Why totals calibrate where layers were timed; None where the classes do."""
    if len(classes.logs) < len(totals.logs):
        return "too few networks have timed layers to test classes of operators"
    if totals.logs and totals.mean_error < classes.mean_error:
        return "the error on networks left out is smaller than with classes of operators"
    return None


def _of_one_engine(pairs: pl.DataFrame) -> tuple[str | None, pl.DataFrame]:
    """The engine that ran the most networks of ``pairs``, its rows, and published ones."""
    own = pairs.filter(pl.col("engine").is_not_null())
    if own.is_empty():
        return None, pairs
    counts = own.group_by("engine", maintain_order=True).agg(n=pl.col("network").n_unique())
    engine = str(counts.sort("n", descending=True, maintain_order=True)["engine"][0])
    return engine, pairs.filter((pl.col("engine") == engine).fill_null(value=True))


def _without_each_network(
    lines: TotalsLines, pairs: pl.DataFrame, classes: TimedClasses
) -> Iterator[tuple[TotalsLines, pl.DataFrame]]:
    """For each network: the lines and class factors fitted without it, and its own rows."""
    for name in pairs["network"].unique(maintain_order=True):
        factors = classes.factors_without(name)
        is_left_out = pl.col("network") == name
        if factors is not None and not pairs.filter(~is_left_out).is_empty():
            rows = classes.rescaled(pairs, factors)
            rest = TotalsLines(rows.filter(~is_left_out), lines.clock_hz, factors.launch_s, lines)
            yield rest, rows.filter(is_left_out)


def _networks_left_out(left: Iterable[tuple[TotalsLines, pl.DataFrame]]) -> LeftOut:
    found = [_off(*each) for each in left]
    squares = tuple(float(np.mean((log / expected) ** 2)) for log, expected in found)
    return LeftOut(tuple(log for log, _ in found), squares, _NETWORK_PRIOR)


def _off(lines: TotalsLines, rows: pl.DataFrame) -> tuple[Array, Array]:
    """ln(measured / predicted) of ``rows``, which ``lines`` were not fitted to, and the deviation
    that the lines expect.
    """
    seconds, expected = lines.on_line(rows)
    off, _ = lines.own_off(rows)
    return np.log(rows["measured_s"].to_numpy() / seconds) - off, expected


def apply_totals(
    predictions: pl.DataFrame,
    calibration: Calibration,
    coefficients: pl.DataFrame,
    transfers: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """``predictions`` (as those of ``calibrate_totals``) with calibrated latency, energy and power.

    Where the latency changes by dT the energy does by π₀ · dT, with the constant power of
    ``coefficients`` (COEFFICIENT_SCHEMA): work and traffic stay what they are. A measured network
    takes in its mode what it took, and draws what it drew. The interval of the latency is that of
    what was left out, with that of the roof; energy and power follow it by π₀, so that a longer
    time is more energy and less power, and keep their own errors beside it. In a mode outside the
    measured clocks in which no network was measured there is none. Other devices and phases stay
    as they are. ``transfers``: TRANSFER_SCHEMA, times carried over from other boards: they count
    where their interval is the narrower one and the network was not measured in the mode.
    """
    rows = predictions.with_row_index("row").with_columns(**stage_columns())
    timed = [pl.DataFrame(schema=_TIMES)]
    for (device, kind), part in (
        rows.filter(_HAS_TIME).partition_by("device", "kind", as_dict=True).items()
    ):
        own = calibration.get((str(device), str(kind)))
        if own is not None:
            timed.append(_times(own, part))
    constant = coefficients.filter(pl.col("quantity") == "constant_power")
    known = constant.unique(["device", "mode"], keep="first").select(
        "device", "mode", constant_w="value"
    )
    found = rows.join(pl.concat(timed), on="row", how="left", maintain_order="left")
    found = _with_transfers(found, transfers)
    found = found.join(known, on=["device", "mode"], how="left", maintain_order="left")
    # Each step reads what the one before wrote: its columns, and the uncalibrated ones.
    return (
        found.with_columns(_values())
        .with_columns(_ends())
        .with_columns(
            pl.when(pl.col("time_s").is_not_null()).then(value).otherwise(name).alias(name)
            for name, value in _calibrated().items()
        )
        .select(predictions.columns)
    )


def _with_transfers(timed: pl.DataFrame, transfers: pl.DataFrame | None) -> pl.DataFrame:
    """``timed`` (rows with _TIMES) with time_s and half of ``transfers`` where these say more."""
    if transfers is None:
        return timed.with_columns(transfer_note=pl.lit(None, pl.String))
    rows = timed.join(transfers, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    half = pl.col("half").fill_nan(None)
    is_narrower = (pl.col("transfer_half") < half) | half.is_null()
    counts = is_narrower & pl.col("transfer_s").is_not_null() & pl.col("measured_source").is_null()
    return rows.with_columns(
        time_s=pl.when(counts).then("transfer_s").otherwise("time_s"),
        half=pl.when(counts).then("transfer_half").otherwise("half"),
        transfer_note=pl.when(counts).then("transfer_note"),
    )


def _pairs(predictions: pl.DataFrame, observations: pl.DataFrame) -> pl.DataFrame:
    """PAIR_SCHEMA, _OWN and _FROM: a row where both times are known and above 0.

    ``measured_s``, the truth of the fits, is CPU time where that of one thread is known: other load
    on the machine is not in it.
    """
    is_published = pl.col("source") == "published"
    timed = (
        observations.select(list(OBSERVATION_SCHEMA))
        .with_columns(truth_s=pl.coalesce("cpu_s", "latency_s"))
        .filter(pl.col("truth_s").is_finite() & (pl.col("truth_s") > 0))
        .filter(is_published == is_published.min().over(PREDICTION_KEY))
    )
    by = [*_KEY, "source", "engine"]
    truths = timed.group_by(by).agg(measured_s=pl.col("truth_s").median())
    measured = (
        pool_repeats(timed, by)
        .join(truths, on=by, how="left", nulls_equal=True, maintain_order="left")
        .unique(_KEY, keep="first", maintain_order=True)
        .select(
            *_KEY,
            "engine",
            "measured_s",
            reported_s="latency_s",
            measured_w="power_w",
            measured_source="source",
            measured_half="latency_half",
            measured_w_half="power_half",
        )
    )
    return (
        predictions.filter(_HAS_TIME)
        .with_columns(**stage_columns())
        .join(measured, on=_KEY, nulls_equal=True)
        .unique(_KEY, keep="first", maintain_order=True)
        .sort(_KEY)
        .select(*PAIR_SCHEMA, *_OWN, *_FROM)
    )


def _launch_clocks(pairs: pl.DataFrame, modes: pl.DataFrame | None) -> dict[str, float]:
    """The clock that launches go with, in the modes that have one; none where a measured mode has
    none. The CPU's; of language models, whose kernels are one graph, the GPU's where it has one.
    """
    if modes is None:
        return {}
    own = modes.filter(pl.col("device") == pairs["device"][0])
    for name in ("gpu_hz", "cpu_hz") if _are_stages(pairs) else ("cpu_hz",):
        found = dict(own.filter(pl.col(name) > 0).select("mode", name).iter_rows())
        if set(pairs["mode"]) <= found.keys():
            return found
    return {}


def _are_stages(pairs: pl.DataFrame) -> bool:
    """Whether ``pairs``, all of one kind, are of a stage of language models."""
    return bool(pairs["kind"][0] != pairs["phase"][0])


def _times(found: DeviceCalibration, rows: pl.DataFrame) -> pl.DataFrame:
    """row, the calibrated time_s, half its interval's width in ln, and what was measured.

    ``half``: NaN where nothing tells; where the time was measured, that of its repeats.
    """
    lines = found.lines
    seconds, expected = lines.on_line(rows)
    off, is_same = lines.own_off(rows)
    is_new = np.isin(rows["mode"].to_numpy(), lines.pairs["mode"].to_numpy(), invert=True)
    by_network = np.where(is_same, 0.0, found.networks.half * expected)
    by_mode = np.where(np.logical_or(is_same, is_new), found.modes.half, 0.0)
    half = np.hypot(by_network, by_mode)
    is_outside = rows["is_extrapolated"].fill_null(value=False).to_numpy()
    half[np.logical_and(is_new, is_outside)] = np.nan
    own = lines.pairs.filter(pl.col("reported_s").is_not_null())
    own = own.select(*_KEY, "measured_w", *_OWN)
    alike = _powers(lines.pairs)
    return (
        rows.select("row", *_KEY)
        .with_columns(
            time_s=pl.Series(seconds * np.exp(off), dtype=pl.Float64),
            half=pl.Series(half, dtype=pl.Float64),
        )
        .join(own, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        .join(alike, on="mode", how="left", maintain_order="left")
        .with_columns(
            time_s=pl.coalesce("reported_s", "time_s"),
            half=pl.coalesce("measured_half", "half"),
            power_note=pl.when(pl.col("measured_w").is_null()).then("power_note"),
            measured_w=pl.coalesce("measured_w", "mean_w"),
            measured_w_half=pl.coalesce("measured_w_half", "mean_w_half"),
        )
        .select(list(_TIMES))
    )


def _powers(pairs: pl.DataFrame) -> pl.DataFrame:
    """By mode what the measured stages of language models drew in the mean, and half the width of
    the 95 % interval of ln of another's; nothing of networks, whose powers differ.

    Every decode waits for the memory, every prefill for the tensor cores, so that their powers are
    alike.
    """
    named = {"mode": pl.String, "mean_w": pl.Float64, "mean_w_half": pl.Float64}
    rows, empty = [], pl.DataFrame(schema={**named, "power_note": pl.String})
    if not _are_stages(pairs):
        return empty
    own = pairs.filter(pl.col("measured_w") > 0)
    for (mode,), part in own.partition_by("mode", as_dict=True, maintain_order=True).items():
        means = part.group_by("model").agg(pl.col("measured_w").log().mean())
        log_w = means["measured_w"].sort().to_numpy()  # in one order: sums are the same each time
        count = _POWER_COUNT + len(log_w) - 1
        variance = (_POWER_COUNT * _POWER_SPREAD**2 + len(log_w) * float(np.var(log_w))) / count
        half = student_quantile(count) * float(np.sqrt(variance * (1 + 1 / len(log_w))))
        models = counted(len(log_w), "model")
        note = f"its power is that of {models} metered in {pairs['kind'][0]} here"
        rows.append((mode, float(np.exp(log_w.mean())), half, note))
    return pl.DataFrame(rows, schema=empty.schema, orient="row")


def _values() -> list[pl.Expr]:
    """new_j and new_w, and ``work_j``: what does not go with the time."""
    longer_s = pl.col("time_s") - pl.col("latency_s")
    seen_j = pl.col("measured_w") * pl.col("time_s")
    new_j = pl.coalesce(seen_j, pl.col("energy_j") + pl.col("constant_w") * longer_s)
    return [
        new_j.alias("new_j"),
        (new_j / pl.col("time_s")).alias("new_w"),
        (new_j - pl.col("constant_w") * pl.col("time_s")).alias("work_j"),
    ]


def _ends() -> list[pl.Expr]:
    """The ends of the new intervals: of the time, and of energy and power where it is at them."""
    half, found = pl.col("half").fill_nan(None), []
    for end, sign in (("low", -1), ("high", 1)):
        time_s = pl.col("time_s") * (sign * half).exp()
        energy_j = pl.col("work_j") + pl.col("constant_w") * time_s
        other_s = pl.col("time_s") * (-sign * half).exp()
        power_w = pl.col("work_j") / other_s + pl.col("constant_w")
        own_w = pl.col("measured_w_half")  # null where no power was measured
        seen_j = pl.col("new_j") * (sign * (half**2 + own_w**2).sqrt()).exp()
        modelled_j = _both("new_j", energy_j, "energy", end, "j", sign)
        modelled_w = _both("new_w", power_w, "power", end, "w", sign)
        found += [
            time_s.alias(f"new_{end}_s"),
            pl.coalesce(seen_j, modelled_j).alias(f"new_{end}_j"),
            pl.coalesce(pl.col("new_w") * (sign * own_w).exp(), modelled_w).alias(f"new_{end}_w"),
        ]
    return found


def _both(value: str, moved: pl.Expr, name: str, end: str, unit: str, sign: int) -> pl.Expr:
    """The end of an interval: ``moved`` by the time, and by the value's own errors."""
    own = (pl.col(f"{name}_{end}_{unit}") / pl.col(f"{name}_{unit}")).log()
    by_time = (moved / pl.col(value)).log()
    return pl.col(value) * (sign * (own**2 + by_time**2).sqrt()).exp()


_NO_END = (
    "the mode lies outside the measured ones and no network was measured in it: its error is "
    "unknown"
)
_NO_POWER = "no constant power is known in this mode: the calibrated energy is unknown"


def _calibrated() -> dict[str, pl.Expr]:
    """The new value of each column of a row that was calibrated."""
    is_measured = pl.col("measured_source").is_not_null()
    lost_j = pl.col("energy_j").is_not_null() & pl.col("new_j").is_null()
    has_end = pl.col("new_low_s").is_not_null()
    no_end = pl.when(~has_end & ~is_measured).then(pl.lit(_NO_END))
    new = {"latency_s": "time_s", "energy_j": "new_j", "power_w": "new_w"}
    for name, unit in (("latency", "s"), ("energy", "j"), ("power", "w")):
        new |= {f"{name}_{end}_{unit}": f"new_{end}_{unit}" for end in ("low", "high")}
    return {
        **{name: pl.col(column) for name, column in new.items()},
        "interval": pl.when(has_end).then(pl.lit("spread")),
        "source": pl.coalesce("measured_source", "source"),
        "is_calibrated": pl.lit(value=True),
        "reason": pl.when(pl.col("new_j").is_null()).then(
            _joined(pl.col("reason"), pl.when(lost_j).then(pl.lit(_NO_POWER)))
        ),
        "notes": _joined(
            _without_launches(pl.col("notes")),
            no_end,
            pl.col("transfer_note"),
            pl.col("power_note"),
        ),
    }


def _without_launches(notes: pl.Expr) -> pl.Expr:
    """The line has a cost of launches of its own."""
    said = pl.lit("; ") + notes
    rest = said.str.replace(f"; {NO_LAUNCH}", "", literal=True).str.strip_prefix("; ")
    return pl.when(rest != "").then(rest)


def _joined(*texts: pl.Expr) -> pl.Expr:
    text = pl.concat_str(list(texts), separator="; ", ignore_nulls=True)
    return pl.when(text != "").then(text)
