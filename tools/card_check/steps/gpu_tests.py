"""The tests of every kernel (tests/gpu) as a step, and what their JUnit file says."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from tools.card_check.__main__ import is_there

JUNIT = "tests.xml"
# The step of the kernels runs these as its plan, with energy.
_IN_THE_PLAN = "tests/gpu/test_card_runtime.py::test_one_trial_of_every_family_as_a_run"
_GPU_LOST = 2  # pytest's exit code where a session is stopped, as tests/gpu/conftest.py does then


def run_tests(folder: Path, *, is_software: bool) -> int:
    """Run them in the root of the checkout; returns pytest's exit code, the worst of all.

    After a fatal CUDA error only a new process can use the GPU: the remaining tests run in one.
    """
    done: ET.ElementTree[ET.Element] | None = None
    codes: list[int] = []
    while not codes or codes[-1] == _GPU_LOST:
        path = folder / "part.xml"
        path.unlink(missing_ok=True)
        known = _names(done)
        codes.append(_call(_command(path, known, is_software=is_software)))
        part = ET.parse(path) if path.is_file() else None  # noqa: S314 - pytest wrote it
        # pytest ends with the same code where it cannot collect a test, which no process can.
        if part is None or set(_names(part)) <= set(known):
            break
        if done is None:
            done = part
        else:
            next(done.getroot().iter("testsuite")).extend(part.getroot().iter("testcase"))
        done.write(folder / JUNIT, encoding="utf-8")
    return max(codes)


def _command(junit: Path, done: Sequence[str], *, is_software: bool) -> list[str]:
    left_out = done if is_software else (_IN_THE_PLAN, *done)
    return [
        *(sys.executable, "-m", "pytest", "tests/gpu", "-q", "-rs", "-p", "no:cacheprovider"),
        *(["--software-gpu"] if is_software else []),
        *(word for name in left_out for word in ("--deselect", name)),
        *("--junit-xml", str(junit)),
    ]


def _names(done: ET.ElementTree[ET.Element] | None) -> list[str]:
    """The tests of a JUnit file as pytest names them."""
    cases = () if done is None else done.getroot().iter("testcase")
    return [
        f"{(one.get('classname') or '').replace('.', '/')}.py::{one.get('name')}" for one in cases
    ]


def _call(command: Sequence[str]) -> int:
    """Run it; a Ctrl-C reaches it too, and it may write its results then."""
    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            return 1


def why_not() -> str:
    """Why they cannot run here; empty where they can."""
    return "" if is_there("pytest") else "pytest is not installed"


class Failed(NamedTuple):
    """A test that failed, and the first line of why."""

    name: str
    why: str


class JunitResults(NamedTuple):
    """How many passed and were skipped, by reason, and those that failed."""

    n_passed: int
    skipped: Counter[str]
    failed: tuple[Failed, ...]


def read_results(path: Path) -> JunitResults | None:
    """The results of a JUnit file; None where pytest did not get so far as to write one."""
    if not path.is_file():
        return None
    n_passed, skipped, failed = 0, Counter[str](), []
    for case in ET.parse(path).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it
        problem = next((part for part in case if part.tag in {"failure", "error"}), None)
        skip = case.find("skipped")
        if problem is not None:
            why = " ".join((problem.get("message") or "").split())
            failed.append(Failed(case.get("name") or "collection", why[:300]))
        elif skip is not None:
            skipped[" ".join((skip.get("message") or "").split())[:160]] += 1
        else:
            n_passed += 1
    return JunitResults(n_passed, skipped, tuple(failed))
