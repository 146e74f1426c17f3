"""How often ``mansard compare`` sees a change where there is none, and where there is one of 5 %.

    python benchmarks/compare_power.py [--data ../shared/data] [--pairs N] [--checks] [--here]
        [--runs RUNS] [--between RUNS RUNS RUNS ...]

Two adjacent stretches of one recording are compared as ``compare`` does it, with its usual
threshold of 1 %: *false* is the share of pairs that "changed". The second stretch times 1.05 is
a true change: *power* is the share that is found. With --checks the same pairs go through
``--check 'p50 +3%'``: shares that are worse (exit code 3), unknown (4) and within (0), of equal
stretches and of those that are 5 % slower; *settled* is the share of unknown ones that are decided
by the number of repetitions that the answer asks for, from another place of the recording. With
--between two sides of one to four runs each are drawn from folders of runs of one build. Recordings
by others: times of trtexec (A100,
RTX 3090, RTX 3060), power by tegrastats of an Orin Nano and of a TX2's busy stretches,
watts of an AGX Orin by a wall meter. With --here two plain loops are timed on this computer; RUNS
are runs of it: of each trial the first half of the blocks against the second. Made-up:
autoregressive noise with a correlation of 0.6 over 100 samples, as the times of the RTX 3060 have.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from mansard.analytics.data.ingest import ingest
from mansard.analytics.decisions.comparing.checks import (
    CheckedPair,
    CheckResult,
    parse_checks,
    run_checks,
    verdict_of,
)
from mansard.analytics.decisions.comparing.gathering import sides_of
from mansard.analytics.decisions.comparing.pairing import pair_quantities
from mansard.analytics.decisions.comparing.sides import ComparedQuantity, Side
from mansard.analytics.decisions.comparing.significance import (
    LEVEL,
    THRESHOLD,
    find_shift,
    shift_test,
)
from mansard.analytics.decisions.values import Array
from mansard.analytics.models.roofs.rates import trial_rates

CHECK = "p50 +3%"

LENGTHS = (40, 100, 200, 500, 1000, 2500)
CHANGE = 1.05
_BUSY = 0.8  # of the GPU rail's 90th percentile


def changed(first: Array, second: Array) -> bool:
    """Whether ``compare`` says that one quantity of two recordings changed."""
    shift = find_shift([(first, second)])
    return shift is not None and shift_test(shift, THRESHOLD) < LEVEL


def shares(recording: Array, length: int, n_pairs: int, seed: int = 0) -> tuple[float, float]:
    """False positives and power over ``n_pairs`` pairs of adjacent stretches, at random places."""
    places = np.random.default_rng(seed).integers(0, len(recording) - 2 * length + 1, n_pairs)
    pairs = [
        (recording[at : at + length], recording[at + length : at + 2 * length]) for at in places
    ]
    return (
        float(np.mean([changed(first, second) for first, second in pairs])),
        float(np.mean([changed(first, CHANGE * second) for first, second in pairs])),
    )


def autoregressive(n: int, noise: float, seed: int, *, correlation: float = 0.6) -> Array:
    """Log-normal samples about 1 with ``correlation`` over 100 samples."""
    phi = correlation**0.01
    drawn = np.random.default_rng(seed).normal(size=n) * np.sqrt(1 - phi**2)
    drawn[0] /= np.sqrt(1 - phi**2)  # begins in its stationary distribution
    return np.asarray(np.exp(noise * lfilter([1.0], [1.0, -phi], drawn)))


def recordings(data: Path) -> Iterator[tuple[str, Array]]:
    """Recorded times and powers of at least 100 samples, with what they are."""
    for path in sorted((data / "trtexec").glob("*.timing.json")):
        times = [row["latencyMs"] for row in json.loads(path.read_text())]
        yield f"trtexec, {_short(path)}", np.array(times)
    for path in sorted((data / "tegrastats").glob("gwonxhj__orin_nano__*.log")):
        powers = re.findall(r"VDD_IN (\d+)mW", path.read_text(errors="replace"))
        if len(powers) >= 100:
            yield f"Orin Nano, VDD_IN, {path.stem[-15:]}", np.array(powers, dtype=float)
    (path,) = (data / "tegrastats").glob("thynics*_sweep_full.txt")
    for clock, rails in _by_clock(path.read_text()).items():
        is_busy = rails[:, 0] >= _BUSY * np.quantile(rails[:, 0], 0.9)
        yield f"TX2 at {clock} MHz, VDD_IN", _longest(rails[:, 1], is_busy)
    (path,) = (data / "benchmarks").glob("mlcommons*spl.txt")
    watts = np.array(re.findall(r"Watts,([\d.]+)", path.read_text()), dtype=float)
    yield "AGX Orin, wall", _longest(watts, watts >= _BUSY * np.quantile(watts, 0.9))


def loops_here(n: int = 6000) -> Iterator[tuple[str, Array]]:
    """Times of a product of matrices and of a copy of 8 MB on this computer, seconds."""
    matrix, source = np.ones((192, 192), np.float32), np.ones(2_000_000, np.float32)
    target = np.empty_like(source)
    for name, run in (
        ("product of matrices, here", lambda: matrix @ matrix),
        ("copy, here", lambda: np.copyto(target, source)),
    ):
        ticks = []
        for _ in range(n + 1):
            run()
            ticks.append(time.perf_counter())
        yield name, np.diff(ticks)


def _short(path: Path) -> str:
    return path.name.split("__", 1)[1].removesuffix(".timing.json")[-40:]


def _by_clock(text: str) -> Mapping[str, Array]:
    """GPU and board power at each GPU clock."""
    rows = re.findall(r"GR3D_FREQ \d+%@(\d+).*?VDD_SYS_GPU (\d+)/.*?VDD_IN (\d+)/", text)
    clocks = np.array([row[0] for row in rows])
    powers = np.array([row[1:] for row in rows], dtype=float)
    return {clock: powers[clocks == clock] for clock in dict.fromkeys(clocks.tolist())}


def _longest(values: Array, chosen: NDArray[np.bool_]) -> Array:
    """The longest stretch of ``values`` that is ``chosen``."""
    ends = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(int), [0]])))
    starts, stops = ends[::2], ends[1::2]
    at = int((stops - starts).argmax())
    return values[starts[at] : stops[at]]


def checked(first: Sequence[Array], second: Sequence[Array]) -> tuple[CheckResult, ...]:
    """The result of CHECK for one quantity of two sides, from the recordings of their runs."""
    mine, its = (_side(_quantity("recording", side)) for side in (first, second))
    return run_checks(parse_checks([CHECK]), [CheckedPair(mine, its, pair_quantities(mine, its))])


def _quantity(name: str, runs: Sequence[Array]) -> ComparedQuantity:
    parts = tuple({"": tuple(values.tolist())} for values in runs)
    no_ends = dict.fromkeys(("low", "high"), "not needed")
    value = float(np.median(np.concatenate(list(runs))))
    return ComparedQuantity(
        kind="p50", name=name, unit="s", value=value, low=None, high=None, runs=parts,
        unknown=no_ends,
    )  # fmt: skip


def _side(*quantities: ComparedQuantity) -> Side:
    return Side(
        label="", device="", processor="cpu", machine="", mode="", builds=(), source="measured",
        started_utc="", facts={}, quantities=quantities, unusable=(),
    )  # fmt: skip


def _print_checks(names: Iterator[tuple[str, Array]], n_pairs: int) -> None:
    """Verdicts of adjacent stretches of recordings."""
    print(f"{'recording':<52}{'length':>7}{'equal 3/4/0':>20}{'+5 % 3/4/0':>20}{'settled':>12}")
    everything: list[Counter[str]] = [Counter(), Counter(), Counter()]
    for name, recording in names:
        for length in LENGTHS:
            if 2 * length <= len(recording):
                counts = _verdicts(recording, length, n_pairs)
                _print_verdicts(name, f"{length}", counts)
                everything = [one + other for one, other in zip(everything, counts, strict=True)]
    _print_verdicts("all of them", "", everything)


def _verdicts(recording: Array, length: int, n_pairs: int) -> list[Counter[str]]:
    """Of equal stretches, of slower ones, and with the repetitions that an answer asks for."""
    random = np.random.default_rng(0)
    equal, slower, settled = Counter[str](), Counter[str](), Counter[str]()
    for at in random.integers(0, len(recording) - 2 * length + 1, n_pairs):
        first, second = recording[at : at + length], recording[at + length : at + 2 * length]
        for factor, counts in ((1.0, equal), (CHANGE, slower)):
            (result,) = checked([first], [factor * second])
            counts[result.verdict] += 1
            if result.needed is None or 2 * result.needed > len(recording):
                continue
            start = int(random.integers(0, len(recording) - 2 * result.needed + 1))
            longer = recording[start : start + 2 * result.needed]
            mine, its = longer[: result.needed], factor * longer[result.needed :]
            settled[verdict_of(checked([mine], [its]))] += 1
    return [equal, slower, settled]


def _print_verdicts(name: str, length: str, counts: Sequence[Counter[str]]) -> None:
    equal, slower, longer = counts
    n = longer.total()
    settled = f"{1 - longer['unknown'] / n:.0%} of {n}" if n else ""
    print(f"{name:<52}{length:>7}{_shares(equal):>22}{_shares(slower):>22}{settled:>14}")


def _shares(verdicts: Counter[str]) -> str:
    """The shares of exit codes 3, 4 and 0."""
    n = verdicts.total()
    return " ".join(f"{verdicts[one] / n:6.1%}" for one in ("worse", "unknown", "within"))


def _print_between(folders: Sequence[Path], n_pairs: int) -> None:
    """Verdicts of two sides of one build, drawn from its runs."""
    of_name: dict[str, list[Array]] = {}
    for folder in folders:
        for side in sides_of(ingest(folder)):
            for quantity in side.quantities:
                if quantity.kind == "p50":
                    of_name.setdefault(quantity.name, []).append(np.array(quantity.runs[0][""]))
    print(f"{'quantity':<64}{'runs':>6}{'between':>9}{'a side':>8}{'3/4/0':>20}")
    random = np.random.default_rng(0)
    for name, runs in of_name.items():
        between = float(np.std([np.log(np.median(run)) for run in runs]))
        for n in (1, 2, 3, 4):
            if 2 * n > len(runs):
                continue
            verdicts = Counter[str]()
            for _ in range(n_pairs):
                drawn = random.permutation(len(runs))[: 2 * n]
                mine, its = ([runs[at] for at in half] for half in (drawn[:n], drawn[n:]))
                verdicts[verdict_of(checked(mine, its))] += 1
            print(f"{name:<64}{len(runs):>6}{between:>9.1%}{n:>8}{_shares(verdicts):>22}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--between", type=Path, nargs="+")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--pairs", type=int, default=200)
    options = parser.parse_args()
    if options.between is not None:
        _print_between(options.between, options.pairs)
        return
    if options.checks:
        source = loops_here() if options.here else recordings(options.data)
        _print_checks(source, options.pairs)
        return
    print(f"{'recording':<52}{'scatter':>8}{'length':>7}{'false':>7}{'power':>7}")
    if options.runs is not None:
        _print_runs(options.runs)
    elif options.here:
        _print_recordings(loops_here(), options.pairs)
    else:
        _print_recordings(recordings(options.data), options.pairs)
        _print_made_up(options.pairs)


def _print_recordings(found: Iterator[tuple[str, Array]], n_pairs: int) -> None:
    both = []
    for name, recording in found:
        scatter = float(recording.std() / recording.mean())
        for length in LENGTHS:
            if 2 * length <= len(recording):
                both.append(shares(recording, length, n_pairs))
                _print(name, scatter, f"{length}", [both[-1]])
    _print("all of them", None, "", both)


def _print_made_up(n_pairs: int) -> None:
    for noise in (0.004, 0.01, 0.03):
        for length in LENGTHS[2:]:
            made = (autoregressive(2 * length, noise, seed) for seed in range(n_pairs))
            both = [shares(recording, length, 1) for recording in made]
            _print("autoregressive", noise, f"{length}", both)


def _print_runs(runs: Path) -> None:
    blocks = [rate.blocks for rate in trial_rates(ingest(runs)) if len(rate.blocks) >= 8]
    scatter = float(np.median([each.std() / each.mean() for each in blocks]))
    both = [shares(each, len(each) // 2, 1) for each in blocks]
    _print(f"{len(blocks)} trials of {runs}", scatter, "half", both)


def _print(
    name: str, scatter: float | None, length: str, both: Sequence[tuple[float, float]]
) -> None:
    false, power = np.mean(both, axis=0)
    shown = "" if scatter is None else f"{scatter:.2%}"
    print(f"{name:<52}{shown:>8}{length:>7}{false:>7.1%}{power:>7.1%}")


if __name__ == "__main__":
    main()
