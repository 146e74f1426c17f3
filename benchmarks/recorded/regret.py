"""What choosing a mode from few measured ones costs on recorded boards: regret, and false promises.

    python benchmarks/recorded/regret.py [--data ../shared/data]

Of each recorded network some modes (k of them, random, of a fixed seed) are taken as measured, and
the mode of the least energy is asked for, without a limit and with limits on the time that a
quarter, a half and three quarters of all modes keep. The chosen mode's recorded energy over that of
the best mode that keeps the limit, minus one, is the regret. Three rules choose:

- "least": the least predicted energy of all modes that keep the limit with 90 %, as if every one
  were known equally well;
- "measured": the same of the measured modes alone;
- "mansard": ``recommend``.

"wrong" is the share of all questions whose answer was "feasible" where the chosen mode misses the
limit. A question that a rule leaves open is in no regret.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file of its folder

from mansard.analytics.decisions.recommend import decide
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.values import KEPT, read_values
from mansard.analytics.models.scaling.network_predict import predict_observed
from recorded.mode_sweeps import Sweep, read_sweeps

SEED, N_QUESTIONS = 15, 120  # of each board and count, with each limit
RULES = ("least", "measured", "mansard")
LIMITS: tuple[float | None, ...] = (None, 0.25, 0.5, 0.75)  # the share of modes that keep it


@dataclass(frozen=True, eq=False)
class Metered:
    """One network in all modes of a board: OBSERVATION_SCHEMA with powers, and MODE_SCHEMA."""

    board: str
    network: str
    observations: pl.DataFrame
    modes: pl.DataFrame

    @property
    def energy_j(self) -> dict[str, float]:
        """What was recorded, by mode."""
        rows = self.observations.select("mode", pl.col("latency_s") * pl.col("power_w"))
        return dict(rows.iter_rows())

    @property
    def latency_s(self) -> dict[str, float]:
        """What was recorded, by mode."""
        return dict(self.observations.select("mode", "latency_s").iter_rows())


@dataclass(frozen=True)
class Answer:
    """One rule's answer to one question; ``regret`` is None where it chose nothing."""

    board: str
    network: str
    k: int
    share: float | None
    rule: str
    mode: str | None
    regret: float | None
    is_wrong: bool


def metered(sweeps: Sequence[Sweep]) -> tuple[Metered, ...]:
    """Every network of ``sweeps`` whose power is known in all modes of its board."""
    return tuple(
        Metered(sweep.name.partition(",")[0], str(network), rows, sweep.modes)
        for sweep in sweeps
        for (network,), rows in sweep.observations.group_by("network", maintain_order=True)
        if rows["power_w"].null_count() == 0 and rows.height == sweep.modes.height
    )


def ask(sweep: Metered, kept: Sequence[str]) -> Iterator[Answer]:
    """All rules' answers to all questions, with the modes ``kept`` measured."""
    seen = sweep.observations.filter(pl.col("mode").is_in(list(kept)))
    predictions = predict_observed(seen, sweep.modes, sweep.modes)
    energy_j, latency_s = sweep.energy_j, sweep.latency_s
    for share in LIMITS:
        # Halfway between two recorded times: no mode is at the limit itself.
        times = sorted(latency_s.values())
        at = None if share is None else max(1, round(share * len(times)))
        limit_s = None if at is None else float(np.sqrt(times[at - 1] * times[at]))
        best_j = min(
            joules
            for mode, joules in energy_j.items()
            if limit_s is None or latency_s[mode] <= limit_s
        )
        for rule in RULES:
            mode = _choose(rule, predictions, Wanted(max_latency_s=limit_s))
            misses = mode is not None and limit_s is not None and latency_s[mode] > limit_s
            # Of a mode that misses its limit the energy is no answer.
            regret = None if mode is None or misses else energy_j[mode] / best_j - 1
            yield Answer(
                sweep.board, sweep.network, len(kept), share, rule, mode, regret, bool(misses)
            )


def _choose(rule: str, predictions: pl.DataFrame, wanted: Wanted) -> str | None:
    """The mode that a rule calls feasible and best; None where it calls none feasible."""
    if rule == "mansard":
        found = decide(predictions, wanted)
        return found.choice.mode if found.choice and found.verdict == "feasible" else None
    values = read_values(predictions, wanted)
    usable = ~np.isnan(values.energy.value)
    if rule == "measured":
        usable &= values.is_measured
    if wanted.max_latency_s is not None:
        usable &= values.latency.holds(wanted.max_latency_s, wanted.probability) == KEPT
    rows = np.flatnonzero(usable)
    if not len(rows):
        return None
    return str(values.frame["mode"][int(rows[np.argmin(values.energy.value[rows])])])


def answers(
    sweeps: Sequence[Metered], counts: Sequence[int] = (2, 3, 4, 5, 6, 8, 10)
) -> pl.DataFrame:
    """A row of Answer for each board, network, count, draw, limit and rule."""
    random = np.random.default_rng(SEED)
    n_networks = Counter(sweep.board for sweep in sweeps)
    found: list[Answer] = []
    for sweep in sweeps:
        n_draws = max(1, N_QUESTIONS // n_networks[sweep.board])
        names = sweep.modes["mode"].to_list()
        for k in counts:
            if k >= len(names):
                continue
            for _ in range(n_draws):
                found += ask(sweep, sorted(random.choice(names, k, replace=False).tolist()))
    return pl.DataFrame([vars(one) for one in found], infer_schema_length=None)


def summary(found: pl.DataFrame) -> pl.DataFrame:
    """For each board, count and rule: mean, 90 % and worst regret, answered and wrong shares."""
    return (
        found.group_by("board", "k", "rule", maintain_order=True)
        .agg(
            mean=pl.col("regret").mean(),
            p90=pl.col("regret").quantile(0.9),
            worst=pl.col("regret").max(),
            answered=pl.col("mode").is_not_null().mean(),
            wrong=pl.col("is_wrong").mean(),
        )
        .sort("board", "k", "rule")
    )


def main() -> None:
    """Print the table, in percent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[3] / "shared/data"
    parser.add_argument("--data", type=Path, default=beside)
    found = answers(metered(read_sweeps(parser.parse_args().data)))
    columns = ("mean", "p90", "worst", "answered", "wrong")
    heads = "".join(f"{name:>10}" for name in columns)
    print(f"{'board':<16}{'k':>3} {'rule':<9}{heads}")
    for row in summary(found).iter_rows(named=True):
        cells = "".join(
            f"{'-':>10}" if row[name] is None else f"{100 * row[name]:>9.1f}%" for name in columns
        )
        print(f"{row['board']:<16}{row['k']:>3} {row['rule']:<9}{cells}")


if __name__ == "__main__":
    main()
