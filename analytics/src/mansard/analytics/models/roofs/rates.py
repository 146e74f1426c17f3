"""From raw repetitions to one rate per trial, with its interval and its blocks.

Repetitions inside one block share whatever disturbed the machine then, so they are
not independent: the median of each block is one observation. The noise of a shared
machine is one-sided and long-tailed, hence medians and no normal theory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import capacity
from mansard.core.precision import PRECISIONS
from mansard.core.records import MemoryKind, Operands, Processor, Scope, Source
from mansard.core.units import Interval

N_RESAMPLES = 2000
CONFIDENCE = 0.95
# Two observations cannot show their own spread: an interval from them would be
# narrow by accident half of the time.
MIN_BLOCKS = 3
SEED = 20090401  # fixed, so that the same rows always give the same interval

Rates = NDArray[np.float64]


class BlockMedian(Interval, frozen=True, kw_only=True):
    """A median with its 95 % interval, in the unit of the observations.

    ``low`` and ``high`` are None where there are fewer than MIN_BLOCKS blocks.
    """

    n_blocks: int


def members(groups: Sequence[Rates], tolerance: float) -> list[int]:
    """Which groups are on the plateau: those with a median within ``tolerance`` of the best."""
    medians = [float(np.median(group)) for group in groups]
    floor = max(medians) * (1.0 - tolerance)
    return [at for at, median in enumerate(medians) if median >= floor]


def estimate(groups: Sequence[Rates]) -> BlockMedian:
    """The median over all blocks of all groups, with a two-stage bootstrap interval.

    A group is one trial, its elements the rates of its blocks. Each resample draws
    trials with replacement, then blocks within each drawn trial, so that scatter
    between trials widens the interval as much as scatter between blocks does.
    Groups must not be empty. The order of groups does not matter: they are sorted.
    """
    ordered = sorted((np.sort(group) for group in groups), key=tuple)
    pooled = np.concatenate(ordered)
    value = float(np.median(pooled))
    if len(pooled) < MIN_BLOCKS:
        return BlockMedian(value, n_blocks=len(pooled))
    medians = _resample(ordered)
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(medians, [tail, 1.0 - tail])
    ends = Interval(value, float(low), float(high)).ends
    return BlockMedian(value, *ends, n_blocks=len(pooled))


# Values that are drawn at once (three arrays of 32 MB), and in all where there are very many: the
# median of a million blocks hardly scatters, so that fewer resamples show how much.
_DRAWN_AT_ONCE = 4_000_000
_MOST_DRAWN = 100_000_000
_LEAST_RESAMPLES = 200


def _resample(groups: Sequence[Rates]) -> Rates:
    """The medians of resamples; memory is bounded, however many groups and blocks there are."""
    random = np.random.default_rng(SEED)
    n_groups, lengths = len(groups), np.array([len(group) for group in groups])
    pooled, starts = np.concatenate(groups), np.cumsum(lengths) - lengths
    n_draws = min(int(lengths.max()), max(_DRAWN_AT_ONCE // n_groups, 1))
    size = n_groups * n_draws
    n_left = min(N_RESAMPLES, max(_MOST_DRAWN // size, _LEAST_RESAMPLES))
    at_once = max(_DRAWN_AT_ONCE // size, 1)
    draws: list[Rates] = []
    while n_left > 0:
        n_now = min(n_left, at_once)
        chosen = random.integers(n_groups, size=(n_now, n_groups, 1))
        position = random.random((n_now, n_groups, n_draws)) * lengths[chosen]
        drawn = pooled[starts[chosen] + position.astype(np.int64)]
        draws.append(np.median(drawn.reshape(n_now, -1), axis=1))
        n_left -= n_now
    return np.concatenate(draws)


USUAL_BACKENDS = ("numba-cpu", "cupy")
_AMOUNTS = {"fma": "work_flop", "tensor": "work_flop", "stream": "traffic_bytes"}
REPETITIONS_AT_ONCE = 1_000_000  # 100 MB while their medians are taken
_TRIAL = ("run_id", "trial_id")
TRIAL_ORDER = ("mode", "run_id", "kernel", "precision", "fma_per_element", "working_set_bytes")


@dataclass(frozen=True, eq=False)
class TrialRate:
    """The rate of one trial.

    FLOP/s of the families fma and tensor, bytes/s of streams, loads/s of latencies, launches/s.
    """

    run_id: str
    trial_id: str
    kernel: str
    family: str
    processor: Processor
    backend: str
    precision: str
    fma_per_element: int | None
    operands: Operands
    scope: Scope
    memory: MemoryKind
    working_set_bytes: int
    cpus: tuple[int, ...]
    n_sms: int | None
    clock_hz: float | None  # of the SMs, median of the accepted samples
    n_accepted: int
    n_rejected: int
    source: Source
    unstable: bool  # it did not meet its stopping rule
    disturbances: tuple[str, ...]  # what else the machine did; not empty: in no ceiling
    blocks: Rates  # one rate per block, from the median time of the block

    @cached_property
    def estimate(self) -> BlockMedian:
        """The median of its blocks with the 95 % interval; computed where it is shown."""
        return estimate([self.blocks])


def trial_rates(dataset: Dataset, at_once: int = REPETITIONS_AT_ONCE) -> tuple[TrialRate, ...]:
    """One rate per trial that has accepted repetitions, sorted by run and trial id.

    Rate of a block = work (FLOP), traffic (bytes), loads or launches of one repetition / median
    seconds of the block's accepted repetitions. A stalled kernel has no rate. At most ``at_once``
    repetitions are in memory, plus those of one trial.
    """
    return tuple(
        _rate(row)
        for some in _some_trials(dataset.trials, at_once)
        for row in some.join(_block_seconds(dataset.repetitions, some), on=_TRIAL, how="inner")
        .sort(_TRIAL)
        .iter_rows(named=True)
        if _amount(row) > 0
    )


def _some_trials(trials: pl.DataFrame, at_once: int) -> Iterator[pl.DataFrame]:
    """The trials by run and trial id, in groups of about ``at_once`` repetitions."""
    ordered = trials.sort(_TRIAL)
    before = (ordered["n_accepted"] + ordered["n_rejected"]).cum_sum()
    starts = before // at_once
    for at in starts.unique(maintain_order=True):
        yield ordered.filter(starts == at)


def _block_seconds(repetitions: pl.LazyFrame, trials: pl.DataFrame) -> pl.DataFrame:
    """The median time of each block of ``trials``, seconds, as one list for each trial."""
    first, last = trials["trial_id"].min(), trials["trial_id"].max()
    # These two skip most of the files and of their parts; the join is what decides.
    near = pl.col("run_id").is_in(trials["run_id"].unique().to_list())
    near &= pl.col("trial_id").is_between(pl.lit(first), pl.lit(last))
    return (
        repetitions.filter(pl.col("accepted") & near)
        .select(*_TRIAL, "block", "seconds_s")
        .join(trials.lazy().select(_TRIAL), on=_TRIAL, how="semi")
        .group_by(*_TRIAL, "block")
        .agg(pl.col("seconds_s").median())
        .sort(*_TRIAL, "block")
        .group_by(_TRIAL, maintain_order=True)
        .agg(pl.col("seconds_s").alias("block_seconds_s"))
        .collect()
    )


def unused_trials(dataset: Dataset) -> tuple[str, ...]:
    """One line for each trial that gives no rate, with the reason."""
    return tuple(
        f"{display_name(row['mode'])}: {describe(row)}: {_why_unused(row)}"
        for row in dataset.trials.sort(TRIAL_ORDER).iter_rows(named=True)
        if row["failure"] is not None
        or (row["family"] != "stalled" and (row["n_accepted"] == 0 or _amount(row) <= 0))
    )


def describe(row: Mapping[str, object]) -> str:
    """What a trial ran, in a few words; names from outside are made printable."""
    ran = f"{display_name(str(row['kernel']))} {display_name(str(row['precision']))}"
    if row["family"] == "fma" and row["fma_per_element"] is not None:
        ran = f"{ran}, {row['fma_per_element']} per element"
    elif row["family"] in {"stalled", "launch"}:
        ran = display_name(str(row["kernel"]))
    elif _size(row):
        ran = f"{ran}, {capacity(_size(row))}"
    return ", ".join([ran, *_variant(row)])


def _variant(row: Mapping[str, object]) -> list[str]:
    """How a trial differs from the plain one of its kind."""
    words = [] if row["backend"] in USUAL_BACKENDS else [display_name(str(row["backend"]))]
    if row["operands"] == "constant":
        words.append("constant operands")
    if row["scope"] == "sm" and row["family"] == "stream":
        words.append("a slice for each SM")
    return [*words, *(["zero-copy"] if row["memory"] == "zero-copy" else [])]


def _size(row: Mapping[str, object]) -> float:
    return _number(row, "working_set_bytes")


def _why_unused(row: Mapping[str, object]) -> str:
    if row["failure"] is not None:
        return f"it could not be measured: {display_text(str(row['failure']))}"
    if row["n_accepted"] == 0:
        return f"no repetition was accepted, {row['n_rejected']} were rejected"
    return "the trial states no work or traffic"


def _amount(row: Mapping[str, object]) -> float:
    """Work, traffic, loads or launches of one repetition; 0 where the trial states none."""
    if row["family"] == "launch":
        return 1.0
    if row["family"] == "latency":
        # One load moves one element: docs/reference/records.md, Trial.
        precision = PRECISIONS.get(str(row["precision"]))
        return 0.0 if precision is None else _number(row, "traffic_bytes") * 8 / precision.n_bits
    amount = _AMOUNTS.get(str(row["family"]))
    return 0.0 if amount is None else _number(row, amount)


def _number(row: Mapping[str, object], name: str) -> float:
    return float(str(row[name]))


def _rate(row: Mapping[str, object]) -> TrialRate:
    blocks: Rates = _amount(row) / np.asarray(row["block_seconds_s"], dtype=np.float64)
    fields = {name: row[name] for name in TrialRate.__dataclass_fields__ if name in row}
    for name in ("cpus", "disturbances"):
        fields[name] = tuple(fields[name])  # type: ignore[arg-type]
    return TrialRate(
        **fields,  # type: ignore[arg-type]
        unstable=row["stability"] == "unstable",
        blocks=blocks,
    )
