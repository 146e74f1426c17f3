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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a file of its folder

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA
from mansard.analytics.decide.recommend import recommend
from mansard.analytics.decide.records import Wanted
from mansard.analytics.decide.values import KEPT, read_values
from mansard.analytics.scaling.network_predict import predict_observed
from recorded.tx2 import modes_of, observations_of, read_vgg19_power

SEED, N_DRAWS = 15, 6
RULES = ("least", "measured", "mansard")
LIMITS: tuple[float | None, ...] = (None, 0.25, 0.5, 0.75)  # the share of modes that keep it
_NANO = "power_modes/YuvrajSingh-mist+SmolHub__orin_nano_super_llm_4_networks.csv"
_CARD = "power_modes/HKBU-HPML+GPU-DVFS-Job-Schedule__gtx1080ti_core_mem_sweep.csv"


@dataclass(frozen=True, eq=False)
class Sweep:
    """One network in all modes of a board: OBSERVATION_SCHEMA and MODE_SCHEMA."""

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


def read_sweeps(data: Path) -> tuple[Sweep, ...]:
    """Every recorded network with times and powers in at least four modes."""
    found = [*_nano(data), *_card(data)]
    for group in ("data_perf", "vgg_benchmarks_output"):
        rows = read_vgg19_power(data, group)
        found.append(Sweep("TX2", f"vgg19 {group}", observations_of(rows), modes_of(rows)))
    return tuple(found)


def _nano(data: Path) -> Iterator[Sweep]:
    rows = pl.read_csv(data / _NANO).with_columns(
        gpu_hz=pl.col("gpu_mhz") * 1e6,
        memory_hz=pl.col("emc_mhz") * 1e6,
        cpu_hz=pl.col("cpu_mhz") * 1e6,
        n_sms=pl.col("sms"),
        latency_s=pl.col("decode_ms_per_token") / 1e3,
    )
    yield from _sweeps("Orin Nano Super", "network", rows)


def _card(data: Path) -> Iterator[Sweep]:
    rows = pl.read_csv(data / _CARD).with_columns(
        gpu_hz=pl.col("core_mhz") * 1e6,
        memory_hz=pl.col("mem_mhz") * 1e6,
        latency_s=pl.col("time_ms") / 1e3,
        mode=pl.format("gpu{}_mem{}", "core_mhz", "mem_mhz"),
    )
    yield from _sweeps("GTX 1080 Ti", "app", rows)


def _sweeps(board: str, name: str, rows: pl.DataFrame) -> Iterator[Sweep]:
    filled = rows.with_columns(
        device=pl.lit(board),
        network=pl.col(name),
        batch=pl.lit(1, pl.Int64),
        precision=pl.lit("unknown"),
        phase=pl.lit("inference"),
        source=pl.lit("published"),
        citation=pl.lit("recorded"),
        reason=pl.lit(None, pl.String),
    )
    filled = filled.with_columns(
        pl.lit(None, kind).alias(column)
        for column, kind in (MODE_SCHEMA | OBSERVATION_SCHEMA).items()
        if column not in filled.columns
    )
    for part in filled.partition_by("network", maintain_order=True):
        modes = part.select(pl.col(c).cast(kind) for c, kind in MODE_SCHEMA.items())
        seen = part.select(pl.col(c).cast(kind) for c, kind in OBSERVATION_SCHEMA.items())
        yield Sweep(board, str(part["network"][0]), seen, modes)


def ask(sweep: Sweep, kept: Sequence[str]) -> Iterator[Answer]:
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
        found = recommend(predictions, wanted)
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
    sweeps: Sequence[Sweep], counts: Sequence[int] = (2, 3, 4, 5, 6, 8, 10)
) -> pl.DataFrame:
    """A row of Answer for each board, network, count, draw, limit and rule."""
    random = np.random.default_rng(SEED)
    found: list[Answer] = []
    for sweep in sweeps:
        names = sweep.modes["mode"].to_list()
        for k in counts:
            if k >= len(names):
                continue
            for _ in range(N_DRAWS):
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
    parser.add_argument("--each", type=int, default=1, help="every n-th network of the card")
    given = parser.parse_args()
    sweeps = read_sweeps(given.data)
    card = [each for each in sweeps if each.board == "GTX 1080 Ti"][:: given.each]
    others = [each for each in sweeps if each.board != "GTX 1080 Ti"]
    found = answers([*others, *card])
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
