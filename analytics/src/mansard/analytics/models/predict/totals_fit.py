"""The time of whole networks as a sum: T = a + b · compute + c · memory + d · launches.

compute, memory and launches are what a network spends at the roof; a is what every run of it
costs. The four coefficients are fitted to networks that were measured, all of one mode or of one
device, on the logarithms of their times: errors of totals are relative, and no time is below zero.

With few networks most of it is a prior (docs/understand/calibration.md): the coefficients are
log-normal about a line of the roof's shape, b and c together more than apart, so one network gives
little more than a factor, and each further one frees the line. The fit is the maximum of the
posterior, D. J. C. MacKay, Information Theory, Inference, and Learning Algorithms, 2003, chapters
27 and 28, by Levenberg's and Marquardt's steps.

Lines are of one device and phase. All modes have a common line, and each mode in which networks
were measured one of its own about that, the further from it the more networks say so. What a run
and a launch cost goes with the clock of the CPU, where that is known of all measured modes: on a
recorded AGX Orin an empty kernel takes the same number of CPU cycles in every mode
(docs/understand/calibration.md).

Prefills and decodes of language models have lines of their own, of parts that add: all work at its
peaks, what unpacks weights among it, and all traffic (``predict.language_stages``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.frames import FrameSchema
from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.core.records import Record

_SETTING = ("network", "batch", "precision")
_SAME_NETWORK = 0.5  # of what a network is off in other batches, precisions and contexts
# A measured time beside its prediction.
PAIR_SCHEMA: FrameSchema = {
    **{name: PREDICTION_SCHEMA[name] for name in ("mode", *PREDICTION_KEY)},
    "model": pl.String,  # as data.names.stage_columns
    "kind": pl.String,
    "latency_s": pl.Float64,  # modelled
    "compute_s": pl.Float64,  # of it, as SHARE_SCHEMA of the engine
    "memory_s": pl.Float64,
    "launch_s": pl.Float64,
    "n_launches": pl.Float64,
    "measured_s": pl.Float64,
    "measured_w": pl.Float64,
}

_Z_95 = 1.96  # half the width of a normal 95 % interval, in standard deviations


class CallCost(Record, frozen=True, kw_only=True):
    """What a call and each launch in it cost in a mode beside work and traffic, 95 %."""

    mode: str
    n_networks: int
    call_s: float
    call_low_s: float
    call_high_s: float
    launch_s: float | None
    launch_low_s: float | None
    launch_high_s: float | None


@dataclass(frozen=True, eq=False)
class TotalsLines:
    """``pairs``: PAIR_SCHEMA, at least one row; ``clock_hz``: of modes, which launches go with;
    empty where it is not known of all.

    ``launch_s``: what a launch takes by timed layers, by which the parts are seconds; None where
    no layers were timed. ``start``: lines through most of the rows, from which the search for these
    begins.
    """

    pairs: pl.DataFrame
    clock_hz: Mapping[str, float]
    launch_s: float | None = None
    start: TotalsLines | None = None

    @cached_property
    def pooled(self) -> TotalsFit:
        """The line of all modes."""
        return self._fit(self.pairs, start=None if self.start is None else self.start.pooled)

    @cached_property
    def by_mode(self) -> Mapping[str, TotalsFit]:
        """The line of each measured mode; the only mode there is has that of all modes."""
        parts = self.pairs.partition_by("mode", as_dict=True, maintain_order=True)
        if len(parts) == 1:
            return {}
        known = {} if self.start is None else self.start.by_mode
        return {
            str(mode): self._fit(part, all_modes=self.pooled, start=known.get(str(mode)))
            for (mode,), part in parts.items()
        }

    @cached_property
    def off(self) -> pl.DataFrame:
        """``pairs`` with ``off``: ln of measured over what the line of the mode says."""
        return self._with_off(self.on_line(self.pairs)[0])

    def on_line(self, rows: pl.DataFrame) -> tuple[Array, Array]:
        """Seconds of ``rows`` (PAIR_SCHEMA, measured or not), and the deviation of their ln."""
        seconds, deviation = np.empty(len(rows)), np.empty(len(rows))
        modes = rows["mode"].to_numpy()
        for mode in np.unique(modes):
            at = np.flatnonzero(modes == mode)
            fit, parts = self.by_mode.get(str(mode), self.pooled), self._parts(rows[at])
            seconds[at], deviation[at] = fit.seconds(parts), fit.deviation(parts)
        return seconds, deviation

    def own_off(self, rows: pl.DataFrame) -> tuple[Array, Array]:
        """ln of what each of ``rows`` is off its line, as its network was elsewhere.

        What it was off in other modes counts, between two of them by the time on the line; of what
        it was off in other batches and precisions half; 0 of networks that were not measured.
        Beside it whether it was measured in other modes. Where the mode has no line of its own,
        what they are off the line of all modes.
        """
        log_s = np.log(self.on_line(rows)[0])
        off, is_same = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        keys = rows.select("mode", "model", *_SETTING).iter_rows()
        for at, (mode, model, *setting) in enumerate(keys):
            known = self._off_modes if mode in self.by_mode else self._off_pooled
            same = known.of_setting.get(tuple(setting))
            if same is not None:
                is_same[at], off[at] = True, np.interp(log_s[at], *same)
            else:
                anywhere = known.of_model.get((model,), 0.0)
                off[at] = _SAME_NETWORK * known.of_model.get((model, mode), anywhere)
        return off, is_same

    @cached_property
    def _off_modes(self) -> _Off:
        return _collect_off(self.off)

    @cached_property
    def _off_pooled(self) -> _Off:
        if not self.by_mode:
            return self._off_modes
        return _collect_off(self._with_off(self.pooled.seconds(self._parts(self.pairs))))

    def _with_off(self, seconds: Array) -> pl.DataFrame:
        off = np.log(self.pairs["measured_s"].to_numpy() / seconds)
        return self.pairs.with_columns(off=pl.Series(off, dtype=pl.Float64))

    def call_costs(self) -> Iterator[CallCost]:
        """Of each measured mode, by its line."""
        parts = self.pairs.partition_by("mode", as_dict=True, maintain_order=True)
        for (name,), rows in parts.items():
            mode = str(name)
            fit, cpu_time = self.by_mode.get(mode, self.pooled), float(self._launch_time([mode])[0])
            call_s, call_low_s, call_high_s = _span(fit, "constant", cpu_time)
            is_counted = bool((rows["n_launches"] > 0).any())
            launch = _span(fit, "launch", cpu_time) if is_counted else (None, None, None)
            no_launch = dict.fromkeys(_LAUNCH, "no launches are counted")
            yield CallCost(
                mode=mode,
                n_networks=rows["network"].n_unique(),
                call_s=call_s,
                call_low_s=call_low_s,
                call_high_s=call_high_s,
                **dict(zip(_LAUNCH, launch, strict=True)),
                unknown={} if is_counted else no_launch,
            )

    def without_each(self, name: str) -> Iterator[tuple[TotalsLines, pl.DataFrame]]:
        """Lines without the rows of each value of the column ``name``, and these rows."""
        for value in self.pairs[name].unique(maintain_order=True):
            is_left_out = pl.col(name) == value
            rest = self.pairs.filter(~is_left_out)
            if not rest.is_empty():
                lines = TotalsLines(rest, self.clock_hz, self.launch_s, self)
                yield lines, self.pairs.filter(is_left_out)

    def _fit(
        self,
        pairs: pl.DataFrame,
        all_modes: TotalsFit | None = None,
        start: TotalsFit | None = None,
    ) -> TotalsFit:
        # The rows of a network share most of their error: n of them count as √n networks.
        n_rows = pairs.select(pl.len().over("model")).to_series().to_numpy()
        return fit_totals(
            self._parts(pairs),
            pairs["measured_s"].to_numpy(),
            1 / np.sqrt(n_rows),
            kind=pairs["kind"][0],
            launch_s=self.launch_s,
            all_modes=all_modes,
            start=start,
        )

    def _parts(self, rows: pl.DataFrame) -> Array:
        """PARTS of each row: what a run costs, s at the roofs, launches."""
        cycles = self._launch_time(rows["mode"].to_list())
        shares = rows.select("compute_s", "memory_s", "launch_s").to_numpy()
        # A power limit stretches all of the longer parts, and has stretched those that add.
        is_longer = (spent := shares.sum(axis=1)) > 0
        is_longer &= ~rows["kind"].is_in(list(_STAGES)).to_numpy()
        stretch = np.where(is_longer, rows["latency_s"].to_numpy() / np.where(spent, spent, 1), 1)
        launches = rows["n_launches"].to_numpy() * cycles
        return np.stack([cycles, shares[:, 0] * stretch, shares[:, 1] * stretch, launches], axis=1)

    def _launch_time(self, modes: list[str]) -> Array:
        """How long a cycle takes in each mode, over the mean of the measured ones."""
        if not self.clock_hz:
            return np.ones(len(modes))
        middle = float(np.mean([np.log(hz) for hz in self.clock_hz.values()]))
        return np.array(
            [
                np.exp(middle) / self.clock_hz[mode] if mode in self.clock_hz else 1.0
                for mode in modes
            ]
        )


_LAUNCH = ("launch_s", "launch_low_s", "launch_high_s")


def _span(fit: TotalsFit, name: str, scale: float) -> tuple[float, float, float]:
    """A coefficient times ``scale``, and the ends of its interval."""
    value, low, high = (scale * fit.coefficient(name, by) for by in (0.0, -_Z_95, _Z_95))
    return value, low, high


@dataclass(frozen=True)
class _Off:
    """What measured networks are off a line, in ln.

    ``of_setting``: by _SETTING, ln of the times on the line in order, and what each is off;
    ``of_model``: the mean, by model, and by model and mode.
    """

    of_setting: Mapping[tuple[object, ...], tuple[Array, Array]]
    of_model: Mapping[tuple[object, ...], float]


def _collect_off(pairs: pl.DataFrame) -> _Off:
    lined = pairs.with_columns(log_s=pl.col("measured_s").log() - pl.col("off")).sort("log_s")
    of_setting = {
        key: (part["log_s"].to_numpy(), part["off"].to_numpy())
        for key, part in lined.partition_by(*_SETTING, as_dict=True).items()
    }
    of_model: dict[tuple[object, ...], float] = {}
    for by in (["model"], ["model", "mode"]):
        means = pairs.group_by(by).agg(pl.col("off").mean())
        of_model |= {tuple(key): off for *key, off in means.iter_rows()}
    return _Off(of_setting, of_model)


Array = NDArray[np.float64]

PARTS = ("constant", "compute", "memory", "launch")
# The prior, chosen on recorded networks (benchmarks/recorded/calibrations.py): the share of the
# time that each part has before anything is known, how far its logarithm may be off, and how much
# of that compute and memory have in common.
_SHARES = np.array([0.2, 0.4, 0.4, 0.2])
_WIDTHS = np.array([3.0, 2.0, 2.0, 3.0])
_COMMON = 0.8
_OF_MODE = np.array([1.0, 0.5, 0.5, 1.0])  # how far those of one mode may be off those of all
# The same where classes of operators were calibrated layer by layer: the parts are seconds then,
# and the line says what a whole call takes beside its layers (benchmarks/zoo_calibration.py).
_CALL_SHARE = 0.005
_TIMED_WIDTHS = np.array([1.5, 0.2, 0.2, 1.0])
_LEAST_LAUNCH_S = 1e-9
# Stages of language models: s of a run, times the parts at the roofs, s of a launch. Rates of
# kernels are known before anything is measured; how they may be off, each alone and all together
# (benchmarks/recorded_language_models.py).
_STAGES = MappingProxyType(
    {"decode": (1e-3, 1.5, 1.4, 1.5e-5), "prefill": (1e-3, 4.0, 1.4, 1.5e-5)}
)
_STAGE_WIDTHS, _STAGE_COMMON, _STAGE_SPREAD = np.array([2.0, 1.0, 0.3, 1.5]), 0.3, 0.2
_SPREAD, _SPREAD_COUNT = 0.25, 2.0  # of ln T about the line, and as how many networks it counts
_STEPS, _ROUNDS = 60, 4
_CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class TotalsFit:
    """ln of the coefficients of PARTS, their ``covariance``, the ``variance`` of ln T beside it."""

    log_coefficients: Array
    covariance: Array
    variance: float

    def coefficient(self, part: str, n_deviations: float) -> float:
        """That of one of PARTS, ``n_deviations`` standard deviations from its likeliest value."""
        at = PARTS.index(part)
        deviation = float(np.sqrt(self.covariance[at, at]))
        return float(np.exp(self.log_coefficients[at] + n_deviations * deviation))

    def seconds(self, parts: Array) -> Array:
        """Of networks with these ``parts`` (networks × PARTS)."""
        return np.asarray(parts @ np.exp(self.log_coefficients), dtype=np.float64)

    def deviation(self, parts: Array) -> Array:
        """The standard deviation of ln T of a network that was not measured."""
        shares = _shares(parts, self.log_coefficients)
        of_line = np.einsum("ij,jk,ik->i", shares, self.covariance, shares)
        return np.asarray(np.sqrt(of_line + self.variance), dtype=np.float64)


def fit_totals(
    parts: Array,
    measured_s: Array,
    weights: Array,
    *,
    kind: str = "inference",
    launch_s: float | None = None,
    all_modes: TotalsFit | None = None,
    start: TotalsFit | None = None,
) -> TotalsFit:
    """The most likely line through ``measured_s`` of ``parts`` (rows × PARTS), s; at least one.

    ``weights``: how much of a network a row is, so that one with many batches counts little more
    than one. ``kind``: of all rows, as data.names.stage_columns has it. ``launch_s``: what a
    launch takes by timed layers, where the other parts are seconds by these too. ``all_modes``: the
    line of all modes, about which that of one mode lies. ``start``: a line that is near.
    """
    log_s, spread = np.log(measured_s), _SPREAD**2
    if all_modes is None:
        if kind in _STAGES:
            middle = np.log(_STAGES[kind])
            covariance = np.diag(_STAGE_WIDTHS**2) + _STAGE_COMMON**2
            spread = _STAGE_SPREAD**2
        elif launch_s is not None:
            middle, covariance = _timed_prior(log_s, weights, launch_s)
        else:
            middle, covariance = _prior(parts, log_s, weights)
    else:
        middle, spread = all_modes.log_coefficients, all_modes.variance
        covariance = all_modes.covariance + np.diag(_OF_MODE**2)
    precision = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
    log_found = middle if start is None else start.log_coefficients
    variance = spread if start is None else start.variance
    for _ in range(_ROUNDS):
        log_found, hessian, residuals = _climb(
            log_found, parts, log_s, weights / variance, middle, precision
        )
        shares = _shares(parts, log_found)
        data = (shares.T * weights) @ shares / variance
        n_free = weights.sum() - np.trace(np.linalg.solve(hessian, data))
        scatter = float(weights @ residuals**2)
        last = variance
        variance = (_SPREAD_COUNT * spread + scatter) / (_SPREAD_COUNT + max(0.0, n_free))
        if abs(variance - last) < 1e-3 * last:
            break
    found = np.asarray(np.linalg.inv(hessian), dtype=np.float64)
    return TotalsFit(log_found, found, variance)


def _prior(parts: Array, log_s: Array, weights: Array) -> tuple[Array, Array]:
    """The middle of ln of the coefficients, and their covariance, before anything is measured."""

    def level(column: Array) -> float:
        known = column > 0
        if not known.any():
            return 0.0
        return float(np.average(log_s[known] - np.log(column[known]), weights=weights[known]))

    roof = level(parts[:, 1] + parts[:, 2])
    levels = np.array([level(parts[:, 0]), roof, roof, level(parts[:, 3])])
    used = (parts > 0).any(axis=0)
    covariance = np.diag(_WIDTHS**2)
    covariance[1, 2] = covariance[2, 1] = _COMMON * _WIDTHS[1] * _WIDTHS[2]
    return levels + np.log(_SHARES / _SHARES[used].sum()), covariance


def _timed_prior(log_s: Array, weights: Array, launch_s: float) -> tuple[Array, Array]:
    """As ``_prior``, where timed layers say what each part takes."""
    call = float(np.average(log_s, weights=weights)) + np.log(_CALL_SHARE)
    middle = np.array([call, 0.0, 0.0, np.log(max(launch_s, _LEAST_LAUNCH_S))])
    return middle, np.diag(_TIMED_WIDTHS**2)


def _shares(parts: Array, log_coefficients: Array) -> Array:
    """How much of each row's time is of each part: the derivative of ln T."""
    spent = parts * np.exp(log_coefficients)
    return np.asarray(spent / spent.sum(axis=1, keepdims=True), dtype=np.float64)


def _climb(
    log_found: Array,
    parts: Array,
    log_s: Array,
    weights: Array,
    middle: Array,
    precision: Array,
) -> tuple[Array, Array, Array]:
    """Where the posterior is highest, its curvature there, and ln measured / fitted."""

    def residuals_at(point: Array) -> Array:
        return np.asarray(log_s - np.log(parts @ np.exp(point)), dtype=np.float64)

    def cost_at(point: Array, residuals: Array) -> float:
        away = point - middle
        return float(weights @ residuals**2 + away @ precision @ away)

    residuals = residuals_at(log_found)
    cost, damping = cost_at(log_found, residuals), 1e-3
    for _ in range(_STEPS):
        shares = _shares(parts, log_found)
        hessian = (shares.T * weights) @ shares + precision
        slope = shares.T @ (weights * residuals) - precision @ (log_found - middle)
        step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), slope)
        moved = residuals_at(log_found + step)
        new = cost_at(log_found + step, moved)
        if new > cost:
            damping *= 5
            if damping > 1e9:
                break
            continue
        is_there = cost - new < _CLOSE * (1 + cost)
        log_found, residuals, cost = log_found + step, moved, new
        damping = max(damping / 5, 1e-9)
        if is_there:
            break
    shares = _shares(parts, log_found)
    return log_found, (shares.T * weights) @ shares + precision, residuals
