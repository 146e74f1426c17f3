"""What choosing a mode from few measured ones costs on recorded boards: regret, and false promises.

    python benchmarks/recorded/regret.py [--data ../shared/data] [--every 1] [--draws 4]

Of each recorded network k modes are taken as measured: random ones of a fixed seed, or those that
``mansard board plan`` picks for the question, one after the other from the third on. Then it is
asked which mode has the least energy: without a limit; with limits on the time that a quarter, a
half and three quarters of all modes keep; with a limit on power that half of them keep, where the
least time is asked for too; and with a time that no mode reaches. ``decision_rules`` answer.

- definite: the share of questions that are answered "feasible" or "infeasible";
- wrong: answered "feasible" with a mode that misses the limit;
- missed: a mode keeps the limit, and the answer was not "feasible";
- regret: the recorded objective of the chosen mode over that of the best mode that keeps the limit,
  minus one: mean, nine of ten, worst. ``common``: its mean over the questions that every rule
  answered with a mode that keeps the limit.

Last, where between its bounds what was recorded lies: the root of the mean square of ln(recorded /
predicted) over ln(end / predicted), beyond the measured modes, by board and k. ``values.BOUNDS_Z``
is one over the largest of each quantity, rounded down.
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

from mansard.analytics.decisions.next_modes import plan_next
from mansard.analytics.decisions.records import Objective, Wanted
from mansard.analytics.models.scaling.network_predict import predict_observed
from recorded.decision_rules import RULES, Seen, reply
from recorded.mode_sweeps import Sweep, read_sweeps
from recorded.named_sweeps import read_named_sweeps

SEED, N_DRAWS = 15, 4
COUNTS = (2, 3, 4, 5, 6, 8)
_OUT_OF_REACH = 0.9  # of the least time


@dataclass(frozen=True, eq=False)
class Metered:
    """One network in all modes of a board: OBSERVATION_SCHEMA with powers, and MODE_SCHEMA."""

    board: str
    network: str
    observations: pl.DataFrame
    modes: pl.DataFrame

    def recorded(self) -> pl.DataFrame:
        """What was recorded, in the order of the modes: ``latency``, ``power``, ``energy``."""
        rows = self.modes.select("mode").join(self.observations, on="mode", maintain_order="left")
        return rows.select(
            "mode",
            latency="latency_s",
            power="power_w",
            energy=pl.col("latency_s") * pl.col("power_w"),
        )


@dataclass(frozen=True)
class Question:
    """``kind``: of its limit."""

    kind: str
    wanted: Wanted


@dataclass(frozen=True)
class Answer:
    """One rule's answer; ``regret`` is None where it chose no mode that keeps the limit."""

    board: str
    network: str
    k: int
    picked: str  # "random" or "planned"
    question: int
    kind: str
    rule: str
    is_definite: bool
    is_wrong: bool
    is_missed: bool
    regret: float | None


def metered(sweeps: Sequence[Sweep]) -> tuple[Metered, ...]:
    """Every network of ``sweeps`` whose power is known in all modes of its board."""
    return tuple(
        Metered(sweep.name.partition(",")[0], str(network), rows, sweep.modes)
        for sweep in sweeps
        for (network,), rows in sweep.observations.group_by("network", maintain_order=True)
        if rows["power_w"].null_count() == 0 and rows.height == sweep.modes.height
    )


def questions(sweep: Metered) -> Iterator[Question]:
    """All questions, the limits halfway between two recorded values."""
    recorded = sweep.recorded()
    latency_s, power_w = (np.sort(recorded[name].to_numpy()) for name in ("latency", "power"))

    def kept_by(values: np.ndarray, share: float) -> float:
        at = max(1, round(share * len(values)))
        return float(np.sqrt(values[at - 1] * values[at]))

    yield Question("no limit", Wanted())
    for kind, share in (("time, a quarter", 0.25), ("time, a half", 0.5), ("time, 3 of 4", 0.75)):
        yield Question(kind, Wanted(max_latency_s=kept_by(latency_s, share)))
    least: tuple[Objective, ...] = ("energy", "latency")
    for minimise in least:
        yield Question(
            "power, a half", Wanted(minimise=minimise, max_power_w=kept_by(power_w, 0.5))
        )
    yield Question("time, none", Wanted(max_latency_s=float(latency_s[0] * _OUT_OF_REACH)))


def planned(sweep: Metered, wanted: Wanted, counts: Sequence[int]) -> dict[int, list[str]]:
    """The modes that ``mansard board plan`` picks for a question, by how many are measured.

    A set that is designed is measured as a whole; then the first pick, and it plans again.
    """
    chosen: dict[int, list[str]] = {}
    for k in counts:
        modes = list(next(reversed(chosen.values()), ()))
        while len(modes) < k:
            seen = sweep.observations.filter(pl.col("mode").is_in(modes))
            plan = plan_next(
                sweep.modes,
                seen if modes else None,
                n=k - len(modes),
                wanted=wanted,
            )
            names = [str(plan.modes["mode"][step.at]) for step in plan.steps]
            modes += names[: max(1, plan.n_designed)]
        chosen[k] = modes
    return chosen


def ask(
    sweep: Metered, picks: Sequence[str], asked: Sequence[tuple[int, Question]], picked: str
) -> Iterator[Answer]:
    """All rules' answers to the questions, with the modes ``picks`` measured."""
    observed = sweep.observations.filter(pl.col("mode").is_in(list(picks)))
    recorded = sweep.recorded()
    at = np.flatnonzero(recorded["mode"].is_in(list(picks)).to_numpy())
    latency_s, power_w = recorded["latency"].to_numpy(), recorded["power"].to_numpy()
    predictions = predict_observed(observed, sweep.modes, sweep.modes)
    seen = Seen(sweep.modes, at, latency_s[at], power_w[at], predictions)
    number = {mode: row for row, mode in enumerate(recorded["mode"].to_list())}
    for which, question in asked:
        wanted = question.wanted
        is_kept = latency_s <= (wanted.max_latency_s or np.inf)
        is_kept &= power_w <= (wanted.max_power_w or np.inf)
        objective = recorded[wanted.minimise].to_numpy()
        for rule in RULES:
            answer = reply(rule, seen, wanted)
            row = None if answer.mode is None else number[answer.mode]
            keeps = row is not None and bool(is_kept[row])
            yield Answer(
                board=sweep.board,
                network=sweep.network,
                k=len(picks),
                picked=picked,
                question=which,
                kind=question.kind,
                rule=rule,
                is_definite=answer.verdict != "open",
                is_wrong=row is not None and not keeps,
                is_missed=bool(is_kept.any()) and row is None,
                regret=objective[row] / objective[is_kept].min() - 1 if keeps else None,
            )


def answers(
    sweeps: Sequence[Metered], counts: Sequence[int] = COUNTS, n_draws: int = N_DRAWS
) -> pl.DataFrame:
    """A row of Answer for each network, count, set of modes, question and rule."""
    random = np.random.default_rng(SEED)
    n_networks = Counter(sweep.board for sweep in sweeps)
    rows: list[Answer] = []
    for sweep in sweeps:
        names = sweep.modes["mode"].to_list()
        asked = list(enumerate(questions(sweep)))
        possible = [k for k in counts if k < len(names)]
        for k in possible:
            # Of few networks more draws.
            for draw in range(n_draws * max(1, 10 // n_networks[sweep.board])):
                modes = sorted(random.choice(names, k, replace=False).tolist())
                numbered = [(draw * len(asked) + at, question) for at, question in asked]
                rows += ask(sweep, modes, numbered, "random")
        for at, question in asked:
            for modes in planned(sweep, question.wanted, possible).values():
                rows += ask(sweep, modes, [(at, question)], "planned")
    return pl.DataFrame([vars(row) for row in rows], infer_schema_length=None)


_ONE = ("board", "network", "k", "picked", "question")


def summary(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """For each value of ``by`` and rule: the shares and regrets, see above."""
    is_common = pl.col("regret").is_not_null().all().over(_ONE)
    return (
        rows.with_columns(common=pl.when(is_common).then("regret"))
        .group_by(*by, "rule", maintain_order=True)
        .agg(
            n=pl.len(),
            definite=pl.col("is_definite").mean(),
            wrong=pl.col("is_wrong").mean(),
            missed=pl.col("is_missed").mean(),
            mean=pl.col("regret").mean(),
            p90=pl.col("regret").quantile(0.9),
            worst=pl.col("regret").max(),
            common=pl.col("common").mean(),
        )
        .sort(*by, maintain_order=True)
    )


_COLUMNS = ("definite", "wrong", "missed", "mean", "p90", "worst", "common")


def print_table(table: pl.DataFrame, *by: str) -> None:
    """In Markdown, in percent."""
    heads = (*by, "rule", "n", *_COLUMNS)
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in table.iter_rows(named=True):
        cells = ["–" if row[name] is None else f"{100 * row[name]:.2f}" for name in _COLUMNS]
        print(f"| {' | '.join([*(str(row[name]) for name in heads[: len(by) + 2]), *cells])} |")


def print_answers(rows: pl.DataFrame, by: Sequence[str] = ("k", "kind", "board")) -> None:
    """The tables by count, by kind of limit, and by board."""
    for column in by:
        print(f"\n**By {column}**\n")
        print_table(summary(rows, "picked", column), "picked", column)


def bound_errors(sweep: Metered, k: int, n_draws: int) -> Iterator[tuple[str, float]]:
    """Errors of modes beyond ``k`` random ones over half their bounds, by quantity."""
    random = np.random.default_rng(SEED)
    recorded = sweep.recorded()
    for _ in range(n_draws):
        picks = random.choice(sweep.modes["mode"].to_list(), k, replace=False).tolist()
        seen = sweep.observations.filter(pl.col("mode").is_in(picks))
        beyond = predict_observed(seen, sweep.modes, sweep.modes).filter(interval="bounds")
        both = beyond.join(recorded, on="mode", maintain_order="left")
        for name, unit in (("latency", "s"), ("power", "w"), ("energy", "j")):
            value, low, high = (f"{name}{end}_{unit}" for end in ("", "_low", "_high"))
            for row in both.drop_nulls([value, low, high]).iter_rows(named=True):
                end = row[high] if row[name] > row[value] else row[low]
                if abs(np.log(end / row[value])) > _LEAST_BOUND:
                    yield name, float(np.log(row[name] / row[value]) / np.log(end / row[value]))


_LEAST_BOUND = 0.005  # of a logarithm: about as much as measurements differ


def print_bound_errors(sweeps: Sequence[Metered], n_draws: int) -> None:
    """For each board, number of measured modes and quantity; then the largest, and BOUNDS_Z."""
    errors: dict[tuple[str, str, int], list[float]] = {}
    for sweep in sweeps:
        for k in (count for count in (1, 2, 3, 4) if count < sweep.modes.height):
            for name, error in bound_errors(sweep, k, n_draws):
                errors.setdefault((name, sweep.board, k), []).append(error)
    largest: dict[str, float] = {}
    print("\n**Errors over half of the bounds**\n")
    print("| quantity | board | k | n | rms |\n|" + " --- |" * 5)
    for (name, board, k), values in sorted(errors.items()):
        rms = float(np.sqrt(np.mean(np.square(values))))
        largest[name] = max(rms, largest.get(name, 0.0))
        print(f"| {name} | {board} | {k} | {len(values)} | {rms:.2f} |")
    print("\n| quantity | largest rms | one over it, rounded down |\n|" + " --- |" * 3)
    for name, rms in largest.items():
        print(f"| {name} | {rms:.2f} | {int(1 / rms)} |")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[3] / "shared/data"
    parser.add_argument("--data", type=Path, default=beside)
    parser.add_argument("--every", type=int, default=1, help="only each so many-th network")
    parser.add_argument("--draws", type=int, default=N_DRAWS)
    arguments = parser.parse_args()
    recordings = (*read_sweeps(arguments.data), *read_named_sweeps(arguments.data))
    sweeps = metered(recordings)[:: arguments.every]
    print_answers(answers(sweeps, n_draws=arguments.draws))
    print_bound_errors(sweeps, arguments.draws)


if __name__ == "__main__":
    main()
