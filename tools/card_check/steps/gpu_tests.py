"""The tests of every kernel (tests/gpu) as a step, and what their JUnit file says."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from tools.card_check.__main__ import is_there

JUNIT = "tests.xml"
# The step of the kernels runs these as its plan, with energy.
_IN_THE_PLAN = "tests/gpu/test_card_runtime.py::test_one_trial_of_every_family_as_a_run"


def command(folder: Path, *, is_software: bool) -> list[str]:
    """What runs them, in the root of the checkout."""
    return [
        *(sys.executable, "-m", "pytest", "tests/gpu", "-q", "-rs", "-p", "no:cacheprovider"),
        *(["--software-gpu"] if is_software else ["--deselect", _IN_THE_PLAN]),
        *("--junit-xml", str(folder / JUNIT)),
    ]


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
