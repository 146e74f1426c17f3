"""The options of a mix: each network in every mode, batch and precision that keeps its limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from mansard.analytics.decide.mix_records import Mix, Share, Task
from mansard.analytics.decide.probability import Array
from mansard.analytics.decide.records import Wanted
from mansard.analytics.decide.screening import Mask, screen
from mansard.analytics.decide.values import Values, read_values
from mansard.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Options:
    """What one task can run as, one element for each option.

    ``busy``: the share of all time that it takes as predicted, ``busy_high`` what that stays
    below with the probability that was asked for; ``active_w``: its energy in a second, W.
    """

    task: Task
    values: Values
    rows: tuple[int, ...]
    modes: tuple[str, ...]
    busy: Array
    busy_high: Array
    active_w: Array

    def by_mode(self) -> dict[str, list[int]]:
        """Which options each mode has."""
        found: dict[str, list[int]] = {}
        for at, mode in enumerate(self.modes):
            found.setdefault(mode, []).append(at)
        return found

    def known(self) -> Options:
        """Only those whose energy is known."""
        return self.keep([int(at) for at in np.flatnonzero(~np.isnan(self.active_w))])

    def keep(self, at: list[int]) -> Options:
        """Only the options of these numbers."""
        return Options(
            self.task,
            self.values,
            tuple(self.rows[one] for one in at),
            tuple(self.modes[one] for one in at),
            self.busy[at],
            self.busy_high[at],
            self.active_w[at],
        )

    def share(self, at: int, part: float) -> Share:
        """The record of ``part`` of the task's items being done by option ``at``."""
        found = self.values.candidate(self.rows[at])
        unknown = {name: why for name, why in found.unknown.items() if name == "energy_j"}
        return Share(
            network=found.network,
            mode=found.mode,
            batch=found.batch,
            precision=found.precision,
            rate_per_s=self.task.rate_per_s * part,
            busy=float(self.busy[at]) * part,
            latency_s=found.latency_s,
            wait_s=_wait_s(self.task, found.batch),
            energy_j=found.energy_j,
            unknown=unknown,
        )


def find_options(predictions: pl.DataFrame, mix: Mix, wanted: Wanted) -> tuple[Options, ...]:
    """The options of every task of ``mix`` in ``predictions``, which are of one device.

    An option keeps the limits of ``wanted`` and of its task with the probability that was asked
    for; the wait for a batch to fill, (batch - 1) / rate, counts as part of its latency.
    A task that keeps its limits in no mode has no options. Raises UsageError for a task that has
    no prediction or no positive rate.
    """
    return tuple(_options(predictions, task, wanted) for task in mix.tasks)


def _options(predictions: pl.DataFrame, task: Task, wanted: Wanted) -> Options:
    if not (np.isfinite(task.rate_per_s) and task.rate_per_s > 0):
        raise UsageError(
            f"{task.network} at {task.rate_per_s} items/s is no task", fix="give a rate above 0"
        )
    rows = predictions.filter(pl.col("network") == task.network)
    for column, asked in (("batch", task.batch), ("precision", task.precision)):
        if asked is not None:
            rows = rows.filter(pl.col(column) == asked)
    values = read_values(rows, wanted)
    if len(values) == 0:
        raise UsageError(
            f"nothing is predicted for {task.network} as the mix asks for it",
            fix="score it at that batch and precision, or leave them out",
        )
    screened = screen(values, wanted)
    batches = values.frame["batch"].to_numpy().astype(np.float64)
    kept = np.flatnonzero(screened.is_likely & _in_time(values, task, wanted, batches))
    frame_modes = values.frame["mode"].to_list()
    return Options(
        task=task,
        values=values,
        rows=tuple(int(at) for at in kept),
        modes=tuple(str(frame_modes[at]) for at in kept),
        busy=task.rate_per_s * values.item.value[kept],
        busy_high=task.rate_per_s * values.item.quantile(wanted.probability)[kept],
        active_w=task.rate_per_s * values.energy.value[kept],
    )


def _in_time(values: Values, task: Task, wanted: Wanted, batches: Array) -> Mask:
    if task.max_latency_s is None:
        return np.ones(len(values), dtype=np.bool_)
    wait_s = (batches - 1.0) / task.rate_per_s
    return np.asarray(values.latency.quantile(wanted.probability) + wait_s <= task.max_latency_s)


def _wait_s(task: Task, batch: int) -> float:
    """How long the first item of a batch waits until the last one has come."""
    return (batch - 1) / task.rate_per_s
