"""Mutants of real models: each must be scored, or refused with one of Mansard's own errors.

    python benchmarks/fuzz.py [--mutants 100000] [--seed 1] [--jobs 2] [--state runs/fuzz]

Models of the zoo and of the onnx package's operator tests are damaged: bits, bytes,
pieces, numbers, whole fields, and what they mean. Each mutant is read, and scored in both
phases. A foreign exception, a crash, more than 10 s or more than 1 GB are failures; such
mutants are kept in the state folder. A run that was stopped goes on where it was; the
same seed gives the same mutants. The exit code is 1 where there are failures.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec
from fuzzing.corpus import read_corpus, write_corpus
from fuzzing.mutants import MUTATIONS, mutant
from fuzzing.trial import run

N_EACH = 1000  # mutants of one process
LIMIT_S = 900.0  # of such a process: one that does not end on a signal is stuck
ADDRESS_BYTES = 8 << 30  # so that a failure does not take the machine with it
CORPUS, PARTS = "corpus", "parts.jsonl"  # files in the state folder
RESULTS = ("refused on reading", "refused on scoring", "scored in part", "scored", "failed")


class Failure(msgspec.Struct, frozen=True):
    """A mutant that did not end well."""

    index: int
    model: str
    mutation: str
    what: str


class Part(msgspec.Struct, frozen=True):
    """What came of the mutants from ``start`` on: how many of each mutation and result."""

    seed: int
    start: int
    stop: int
    counts: dict[str, dict[str, int]]
    failures: list[Failure]


def main() -> int:
    """Run what is missing and print what came out."""
    options = _options()
    if options.part is not None:
        print(msgspec.json.encode(_run_part(options.state, options.seed, *options.part)).decode())
        return 0
    options.state.mkdir(parents=True, exist_ok=True)
    if not (options.state / CORPUS).exists():
        write_corpus(options.state / CORPUS)
    found = {part.start: part for part in _read(options.state, options.seed)}
    starts = [start for start in range(0, options.mutants, N_EACH) if start not in found]
    began_s = time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(_finished_part, options.state, options.seed, start, start + N_EACH)
            for start in starts
        ]
        try:
            for n_done, done in enumerate(as_completed(waiting), 1):
                part = done.result()
                found[part.start] = part
                _append(options.state, part)
                left_s = (time.monotonic() - began_s) / n_done * (len(waiting) - n_done)
                progress = f"\r{len(found) * N_EACH} mutants, {left_s:.0f} s left "
                print(progress, end="", file=sys.stderr)
        finally:
            pool.shutdown(cancel_futures=True)
    print(file=sys.stderr)
    return _report(found.values(), options.state)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, default=Path("runs/fuzz"))
    parser.add_argument("--part", type=int, nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_part(state: Path, seed: int, start: int, stop: int) -> Part:
    """Run in this process; the number of the mutant at hand stands in a file, should it crash."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    originals = read_corpus(state / CORPUS)
    counts: dict[str, Counter[str]] = {name: Counter() for name in MUTATIONS}
    failures = []
    with _place(state, start).open("wb", buffering=0) as present:
        for index in range(start, stop):
            os.pwrite(present.fileno(), b"%12d" % index, 0)
            name, model, data = mutant(originals, seed, index)
            outcome = run(data)
            counts[name][outcome.result] += 1
            if outcome.failure is not None:
                failures.append(Failure(index, model, name, outcome.failure))
    return Part(seed, start, stop, {name: dict(held) for name, held in counts.items()}, failures)


def _place(state: Path, start: int) -> Path:
    """The file that says at which mutant the process is."""
    return state / f"at-{start}"


def _finished_part(state: Path, seed: int, start: int, stop: int) -> Part:
    """Run in a process of its own; one that dies is followed by others, around the mutant."""
    if start == stop:
        return Part(seed, start, stop, {}, [])
    command = [sys.executable, "-W", "error::RuntimeWarning", __file__, "--state", str(state)]
    command += ["--seed", str(seed), "--part", str(start), str(stop)]
    place = _place(state, start)
    place.unlink(missing_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
        what = f"exit code {done.returncode}: {done.stderr[-2000:].decode(errors='replace')}"
        if done.returncode == 0:
            place.unlink()
            return msgspec.json.decode(done.stdout, type=Part)
    except subprocess.TimeoutExpired:
        what = "did not end"
    if not place.exists():
        raise SystemExit(f"fuzz: the process did not even start: {what}")
    at = int(place.read_bytes())
    place.unlink()
    name, model, _ = mutant(read_corpus(state / CORPUS), seed, at)
    died = Part(
        seed, at, at + 1, {name: {"failed": 1}}, [Failure(at, model, name, f"process died: {what}")]
    )
    parts = [_finished_part(state, seed, start, at), died]
    parts.append(_finished_part(state, seed, at + 1, stop))
    return _merged(parts)


def _merged(parts: Iterable[Part]) -> Part:
    parts = sorted(parts, key=lambda part: part.start)
    counts: dict[str, Counter[str]] = {name: Counter() for name in MUTATIONS}
    for part in parts:
        for name, held in part.counts.items():
            counts[name].update(held)
    failures = list(itertools.chain.from_iterable(part.failures for part in parts))
    return Part(
        parts[0].seed,
        parts[0].start,
        parts[-1].stop,
        {name: dict(held) for name, held in counts.items()},
        failures,
    )


def _read(state: Path, seed: int) -> list[Part]:
    path = state / PARTS
    lines = path.read_bytes().splitlines() if path.exists() else []
    parts = [msgspec.json.decode(line, type=Part) for line in lines]
    return [part for part in parts if part.seed == seed]


def _append(state: Path, part: Part) -> None:
    with (state / PARTS).open("ab") as stream:
        stream.write(msgspec.json.encode(part) + b"\n")


def _report(parts: Iterable[Part], state: Path) -> int:
    """Print the counts, save the mutants that failed; the exit code."""
    whole = _merged(parts)
    print(f"{'mutants':18}" + "".join(f"{result:>20}" for result in RESULTS))
    rows = {**whole.counts, "all": dict(sum(map(Counter, whole.counts.values()), Counter[str]()))}
    for name, held in rows.items():
        print(f"{name:18}" + "".join(f"{held.get(result, 0):20}" for result in RESULTS))
    originals = read_corpus(state / CORPUS) if whole.failures else []
    for failure in whole.failures:
        path = state / f"failed-{whole.seed}-{failure.index}.onnx"
        path.write_bytes(mutant(originals, whole.seed, failure.index)[2])
        print(f"\n{path} ({failure.model}, {failure.mutation}):\n{failure.what}")
    n_all = sum(rows["all"].values())
    print(f"\n{n_all} mutants of seed {whole.seed}, {len(whole.failures)} failures")
    return 1 if whole.failures else 0


if __name__ == "__main__":
    sys.exit(main())
