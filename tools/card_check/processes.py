"""The steps of a check: each a process with its share of the time, so that none ends the rest."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Status = Literal["done", "failed", "out of time", "no time left", "not possible"]
GRACE_S = 6.0  # between asking a step to end and ending it
LEAST_S = 3.0  # with less left a step is not begun


@dataclass(frozen=True)
class Step:
    """One step: what runs, given the seconds it has, and its share of all seconds."""

    name: str
    share: float
    command: Callable[[float], Sequence[str]]
    beside: Callable[[float], Sequence[str]] | None = None  # runs as long as the step does
    why_not: str = ""  # why it cannot run here


@dataclass(frozen=True)
class Outcome:
    """What became of a step."""

    name: str
    status: Status
    took_s: float
    why: str = ""  # its last line, where it failed

    def as_json(self) -> dict[str, object]:
        """The fields as they are written to the results."""
        return asdict(self)


def run_steps(
    steps: Sequence[Step],
    seconds: float,
    logs: Path,
    say: Callable[[str], None],
    *,
    keep: Callable[[Sequence[Outcome]], object] = lambda _: None,
    grace_s: float = GRACE_S,
) -> list[Outcome]:
    """Run one after the other; what a step leaves of its time, the next ones have.

    ``keep`` gets all outcomes so far after each step. A step that runs at its end is interrupted,
    and killed with its children after a grace that is part of its time: all of it together takes no
    longer than ``seconds``.
    """
    start_s, due_s, outcomes = time.monotonic(), 0.0, []
    for step in steps:
        due_s += step.share * seconds
        left_s = due_s - (time.monotonic() - start_s)
        if step.why_not:
            outcomes.append(Outcome(step.name, "not possible", 0.0, step.why_not))
            continue
        if left_s < LEAST_S + grace_s:
            outcomes.append(Outcome(step.name, "no time left", 0.0, f"{max(0.0, left_s):.0f} s"))
            continue
        say(f"{step.name}, {left_s:.0f} s at most")
        outcome = _run(step, left_s - grace_s, logs, grace_s)
        say(f"{step.name}: {outcome.status} after {outcome.took_s:.1f} s {outcome.why}".rstrip())
        outcomes.append(outcome)
        keep(outcomes)
    return outcomes


def _run(step: Step, seconds: float, logs: Path, grace_s: float) -> Outcome:
    began_s = time.monotonic()
    log = logs / f"{step.name}.log"
    beside = None
    if step.beside is not None:
        beside = _start(step.beside(seconds), logs / f"{step.name}_beside.log")
    process = _start(step.command(seconds), log)
    status: Status = "done"
    try:
        code = process.wait(seconds)
        status = "done" if code == 0 else "failed"
    except subprocess.TimeoutExpired:
        status = "out of time"
    finally:  # a Ctrl-C leaves nothing behind
        _end(process, grace_s)
        if beside is not None:
            _end(beside, grace_s)
    why = "" if status == "done" else _last_line(log)
    return Outcome(step.name, status, time.monotonic() - began_s, why)


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """With a session of its own, so that its children can be ended with it."""
    with log.open("wb") as stream:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """Interrupt it, and kill it and its children where it does not end."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.8 * grace_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # a driver that hangs holds even a killed process
        process.wait(0.2 * grace_s)


def _last_line(log: Path) -> str:
    text = log.read_bytes()[-4096:].decode("utf-8", "replace")
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
