"""The command on the machine with the card: all steps within the time, the table last."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from mansard.core.storage.leftovers import temporary_folder
from tools.card_check import Software
from tools.card_check.judging import judge
from tools.card_check.processes import Outcome, Step, run_steps
from tools.card_check.steps import gpu_tests
from tools.card_check.steps.looks import FILE as LOOKS
from tools.card_check.table import Line, as_text, counts
from tools.card_check.workfolder import WorkFolder

ARCHIVE, TABLE, TEXT = "card_check.tar.gz", "table.json", "table.txt"
_TOOL = str(Path(__file__).parent)


def plan_steps(work: WorkFolder, software: Software | None) -> list[Step]:
    """The steps in their order with their shares of the time; 0.02 are for packing."""
    options = [] if software is None else ["--software", software]

    def step(name: str, share: float) -> Step:
        def command(seconds: float) -> Sequence[str]:
            given = ["--work", str(work.path), "--seconds", f"{seconds:.0f}"]
            return [sys.executable, _TOOL, "step", name, *given, *options]

        return Step(name, share, command, _watching(work) if name == "kernels" else None)

    shares = {
        "kernels": 0.39,
        "meter": 0.04,
        "peers": 0.06,
        "counters": 0.09,
        "program": 0.05,
        "rest": 0.02,
    }
    return [
        step("facts", 0.03),
        replace(step("tests", 0.30), why_not=gpu_tests.why_not()),
        *(step(name, share) for name, share in shares.items()),
    ]


def _watching(work: WorkFolder) -> Callable[[float], Sequence[str]]:
    file = str(work.path / LOOKS)
    return lambda seconds: [
        *(sys.executable, _TOOL, "watch", "--file", file, "--seconds", f"{seconds:.0f}")
    ]


def run_check(out: Path, seconds: float, software: Software | None) -> int:
    """Run all steps, write the results to ``out``, print the table; 1 where a line fails.

    Results are written after each step, so a check that is cut off leaves those of the steps
    before.
    """
    start_s = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start_s:5.1f} s] {text}", flush=True)

    out.mkdir(parents=True, exist_ok=True)
    with temporary_folder() as folder:
        work = WorkFolder(folder / "work")
        work.runs.mkdir(parents=True)
        keep = partial(_keep, work, out, software)
        lines = keep(run_steps(plan_steps(work, software), seconds, work.path, say, keep=keep))
    say(f"results are in {out}")
    print(as_text(lines))
    return 1 if counts(lines)["FAIL"] else 0


def _keep(
    work: WorkFolder, out: Path, software: Software | None, outcomes: Sequence[Outcome]
) -> list[Line]:
    """The table so far, and everything in one archive beside what is read first."""
    work.write("steps", {"software": software, "steps": [one.as_json() for one in outcomes]})
    lines = judge(work)
    (work.path / TEXT).write_text(as_text(lines) + "\n", encoding="utf-8")
    content = json.dumps([asdict(line) | {"verdict": line.verdict} for line in lines], indent=1)
    (out / TABLE).write_text(content + "\n", encoding="utf-8")
    for name in (TEXT, gpu_tests.JUNIT, "facts.json", "steps.json"):
        if (work.path / name).is_file():
            shutil.copyfile(work.path / name, out / name)
    unfinished = work.path.parent / ARCHIVE
    with tarfile.open(unfinished, "w:gz") as archive:
        archive.add(work.path, arcname="work")
    shutil.move(unfinished, out / ARCHIVE)
    return lines
