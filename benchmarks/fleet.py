"""Fifty simulated boards in one bench: what grows with the time, and what one bad board costs.

    python benchmarks/fleet.py docs/results/fleet.md [--boards 50] [--trial-s 1.0]

``mansard bench --host b00,b01,…`` as a process of its own, in two power modes, over stand-in
engines on sockets (``fleets/engines.py``): each board has its controller as the real program, and
answers with made-up samples. Of the boards one is not there, one is slow, and one falls silent in
the middle, until ssh would end (55 s). Threads, open files and memory are read twice a second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from fleets.boards import engines, hosts_file, made_boards

from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document

MODES = "gpu=306MHz,cores=4;gpu=612MHz,cores=6"
SAMPLE_S = 0.5
SLOWER = 2.0  # the slow board's trials, of the others'
N_MOMENTS = 12  # of the page
SILENT_AFTER = 3  # trials of the board that falls silent


class Sample(msgspec.Struct, frozen=True):
    """What the process has at a moment."""

    at_s: float
    n_threads: int
    n_files: int
    memory_bytes: int
    n_done: int  # runs that are finished


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the bench and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path, help="the file that is written")
    parser.add_argument("--boards", type=int, default=50)
    parser.add_argument("--trial-s", type=float, default=1.0, help="how long a trial takes")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        options.page.write_text(
            "\n".join(page(Path(name), options.boards, options.trial_s)) + "\n", encoding="utf-8"
        )
    return 0


def page(folder: Path, n_boards: int, trial_s: float) -> Iterator[str]:
    """Runs the bench; the lines of the page."""
    boards = made_boards(folder, n_boards, trial_s)
    gone, slow, silent = (each.name for each in boards[-3:])
    served = [
        msgspec.structs.replace(
            each,
            trial_s=trial_s * (SLOWER if each.name == slow else 1.0),
            silent_after=SILENT_AFTER if each.name == silent else None,
        )
        for each in boards
        if each.name != gone
    ]
    runs = folder / "runs"
    command = [sys.executable, "-m", "mansard.cli", "bench", "--offline", "--runs", str(runs)]
    command += ["--hosts-file", str(hosts_file(folder, boards)), "--profile", "brief"]
    command += ["--mode", MODES, "--host", ",".join(each.name for each in boards)]
    with engines(folder, served), (folder / "said").open("w", encoding="utf-8") as said:
        began_s = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        samples = list(watched(process, runs, began_s))
        whole_s = time.monotonic() - began_s
    last = (folder / "said").read_text(encoding="utf-8").splitlines()[-1]
    report = runs / "report.html"
    if not report.exists():
        raise SystemExit(f"there is no report: {last}")
    began_s = time.monotonic()
    made = [sys.executable, "-m", "mansard.cli", "report", "--runs", str(runs), "--output"]
    subprocess.run([*made, str(folder / "again.html")], check=True, capture_output=True)
    report_s = time.monotonic() - began_s
    yield "# A fleet of many boards"
    yield ""
    yield "`python benchmarks/fleet.py docs/results/fleet.md`: the process that drives simulated"
    yield "boards."
    yield ""
    yield f"{n_boards} boards in one `mansard bench`, two power modes each, {trial_s:g} s a trial."
    yield f"{gone} has no engine, {slow} is {SLOWER:g} times slower, {silent} stops responding"
    yield f"after {SILENT_AFTER} trials. The machine has {os.cpu_count()} CPUs and other load."
    yield ""
    yield from resources(samples)
    yield ""
    yield from boards_done(runs, samples, whole_s, process.returncode)
    yield ""
    yield f"The last line of the bench: `{last.replace(str(folder), '/…')}`"
    yield ""
    n_bytes = report.stat().st_size
    yield f"The report is {n_bytes / 1e6:.1f} MB, written again in {report_s:.1f} s."


def watched(process: subprocess.Popen[bytes], runs: Path, began_s: float) -> Iterator[Sample]:
    """Samples of a process until its end."""
    place = Path(f"/proc/{process.pid}")
    while process.poll() is None:
        try:
            status = dict(
                line.split(":", maxsplit=1) for line in (place / "status").read_text().splitlines()
            )
            n_files = len(list((place / "fd").iterdir()))
            yield Sample(
                time.monotonic() - began_s,
                int(status["Threads"]),
                n_files,
                1024 * int(status["VmRSS"].split()[0]),
                sum(1 for _ in finished(runs)),
            )
        except (OSError, KeyError):  # it is ending
            break
        time.sleep(SAMPLE_S)
    process.wait()


def finished(runs: Path) -> Iterator[Manifest]:
    """The manifests of runs that are through."""
    for path in runs.glob("*/manifest.json"):
        manifest = read_document(path, Manifest)
        if manifest.finished_utc is not None:
            yield manifest


def resources(samples: Sequence[Sample]) -> Iterator[str]:
    """Threads, files and memory at moments from the start to the last run."""
    most = max(sample.n_done for sample in samples)
    last_s = next(sample.at_s for sample in samples if sample.n_done == most)
    yield "| s | runs done | threads | open files | memory, MB |"
    yield "|--:|--:|--:|--:|--:|"
    for part in range(N_MOMENTS + 1):
        at_s = last_s * part / N_MOMENTS
        each = min(samples, key=lambda sample: abs(sample.at_s - at_s))
        cells = (each.n_done, each.n_threads, each.n_files, f"{each.memory_bytes / 1e6:.0f}")
        yield f"| {each.at_s:.0f} | {' | '.join(map(str, cells))} |"
    ends = samples[-1]
    yield ""
    yield f"{ends.n_threads} threads and {ends.n_files} files remain. Peak memory, in the report:"
    yield f"{max(each.memory_bytes for each in samples) / 1e6:.0f} MB."


def boards_done(runs: Path, samples: Sequence[Sample], whole_s: float, code: int) -> Iterator[str]:
    """How many boards were measured, and when."""
    counts: dict[str, int] = {}
    for manifest in finished(runs):
        board = str(manifest.machine.machine_hash)
        counts[board] = counts.get(board, 0) + 1
    whole = sum(count == 2 for count in counts.values())
    most = max(sample.n_done for sample in samples)
    good = next(sample.at_s for sample in samples if sample.n_done >= 2 * (whole - 1))
    last = next(sample.at_s for sample in samples if sample.n_done == most)
    yield f"{whole} boards have both modes after {good:.0f} s, the slow one after {last:.0f} s. The"
    yield f"bench waits for the silent board and ends after {whole_s:.0f} s with code {code}."


if __name__ == "__main__":
    raise SystemExit(main())
