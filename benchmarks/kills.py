"""Kills of whole commands at random moments, and what is then lost, wrong, or left behind.

    python benchmarks/kills.py [--kills 500] [--seed 1] [--kinds cpu,board,…]

Each kind is a command: ``bench`` on this CPU, on a simulated board, in a container, on two
boards at once; ``merge``, ``report``, ``image build``, ``image load``. It is started again and
again, and killed (SIGKILL, the first process alone) at a moment drawn evenly from its usual
time. Where it has ended by itself it begins anew. After every kill:

- each row that was there is there, byte by byte, and belongs to its run;
- a page is whole, and an image that has our tag is the one that was built.

After every end: each trial is there once, a dataset holds the rows of its runs and no others,
boards are as they were found, and no hidden file, temporary file, process, container or image is
left. Docker's daemon is one of its own and needs root; its kinds are left out where it cannot be.
The exit code is 1 for a fault.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from killing.commands import SHARES, Victim, victims

END_S = 1800.0
GONE_S = 15.0


@dataclass
class Tally:
    """What became of one kind."""

    n_kills: int = 0
    n_ends: int = 0
    faults: list[str] = field(default_factory=list)


def main() -> int:
    """Kill, print a table, and say whether anything was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(SHARES))
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    whole = sum(SHARES[kind] for kind in kinds)
    print("| command | kills | ends | faults |\n|---|---|---|---|")
    tallies = []
    with tempfile.TemporaryDirectory(prefix="kills-") as name, ExitStack() as stack:
        for victim in victims(kinds, Path(name), stack):
            n_kills = round(options.kills * SHARES[victim.kind] / whole)
            tally = kill(victim, n_kills, random.Random(f"{options.seed} {victim.kind}"))
            print(f"| {victim.kind} | {tally.n_kills} | {tally.n_ends} | {len(tally.faults)} |")
            print("".join(f"{fault}\n" for fault in tally.faults), end="", flush=True)
            tallies.append(tally)
    print(f"{sum(t.n_kills for t in tallies)} kills, {sum(len(t.faults) for t in tallies)} faults")
    return int(any(tally.faults for tally in tallies))


def kill(victim: Victim, n_kills: int, moments: random.Random) -> Tally:
    """Kill the victim so often, then let it end by itself."""
    tally = Tally()
    victim.begin()
    while True:
        is_last = tally.n_kills == n_kills
        limit_s = END_S if is_last else moments.uniform(0, victim.usual_s)
        said = victim.folder / "said.txt"
        with said.open("wb") as out:
            process = subprocess.Popen(
                victim.command, stdout=out, stderr=out, env=environment(victim), cwd=victim.folder
            )
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            tally.n_kills += not is_last
            where = f"{victim.kind}, kill {tally.n_kills}"
            tally.faults += [f"{where}: {fault}" for fault in victim.check()]
            if is_last:
                tally.faults.append(f"{where}: no end within {END_S} s")
                return tally
            continue
        tally.n_ends += 1
        where = f"{victim.kind}, end {tally.n_ends} after {tally.n_kills} kills"
        faults = [] if code == 0 else [f"exit code {code}: {last_line(said)}"]
        faults += [*victim.check(), *victim.check_end(), *left_behind(victim)]
        tally.faults += [f"{where}: {fault}" for fault in faults]
        if is_last:
            return tally
        victim.begin()


def environment(victim: Victim) -> dict[str, str]:
    """Temporary files in a folder of the victim's own, where none may stay."""
    return os.environ | {"TMPDIR": str(victim.temporary)}


def last_line(path: Path) -> str:
    """Of what a command printed."""
    return (path.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]


def left_behind(victim: Victim) -> Iterator[str]:
    """Processes of the victim, and files that nobody asked for."""
    end_s = time.monotonic() + GONE_S
    while (found := processes_of(victim)) and time.monotonic() < end_s:
        time.sleep(0.1)
    yield from (f"process left: {one}" for one in found)
    yield from (f"temporary file left: {path}" for path in victim.temporary.iterdir())
    hidden = (path for path in victim.folder.rglob(".*") if path.name != ".lock")  # locks stay
    yield from (f"hidden file left: {path}" for path in hidden)


def processes_of(victim: Victim) -> list[str]:
    """Command lines of processes that were started with the victim's environment."""
    mark = f"TMPDIR={victim.temporary}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has just ended
    return found


if __name__ == "__main__":
    sys.exit(main())
