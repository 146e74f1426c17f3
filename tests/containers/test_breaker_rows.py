"""A measuring process that says what it should not: refused in one line, what was good is kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.containers.measurer import decode_event
from mansard.core.errors import MansardError, MeasurementError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Trial
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.measuring.events import Event, event_decoder
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import run_plan
from mansard.microbench.plan import KernelPlan, make_plan

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def plan() -> KernelPlan:
    whole = make_plan(identify(), core_count_mode(1), "brief")
    short = msgspec.structs.replace(
        whole.protocol, time_cap_s=0.05, energy_window_s=0.05, settle_cap_s=0.05, idle_s=0.1
    )
    trials = tuple(spec for spec in whole.trials if spec.kernel == "fma")[:2]
    return msgspec.structs.replace(whole, trials=trials, protocol=short)


@pytest.fixture(scope="module")
def good(plan: KernelPlan) -> Lines:
    """What a real measurement of both trials says."""
    missing = tuple(spec.trial_id for spec in plan.trials)
    job = Job(plan=plan, missing=missing, read_back=plan.mode)
    return [json.loads(msgspec.json.encode(event)) for event in LocalMeasurer()(job)]


def keep(plan: KernelPlan, runs: Path, lines: Lines) -> list[str]:
    """Keep what ``lines`` say; the trials that are on disk then, and the error as it is told."""

    def say(_: Job) -> Iterator[Event]:
        decoder = event_decoder(Trial)
        for line in lines:
            yield decode_event(json.dumps(line).encode(), decoder)

    run_plan(plan, runs, measurer=say)
    return kept(runs)


def kept(runs: Path) -> list[str]:
    paths = runs.glob("*/trials.jsonl")
    return [trial.trial_id for path in paths for trial in read_rows(path, Trial).rows]


def rows_of(lines: Lines) -> list[int]:
    return [number for number, line in enumerate(lines) if line["type"] == "Row"]


def with_second(lines: Lines, **fields: Any) -> Lines:
    """``lines`` with other values in the second trial."""
    lines[rows_of(lines)[1]]["row"].update(fields)
    return lines


@pytest.mark.parametrize(
    ("spoil", "words", "n_kept"),
    [
        (lambda lines: lines[1:], "did not say what it is", 0),
        (lambda lines: [lines[-1]], "2 trials missing", 0),
        (lambda lines: [], "2 trials missing", 0),
        (lambda lines: lines[:-1], "ended with 0 trials missing", 2),
        (lambda lines: with_second(lines, run_id="another"), "was not asked for", 1),
        (lambda lines: with_second(lines, trial_id="another"), "was not asked for", 1),
        # Its id alone is right: it is of another plan.
        (lambda lines: with_second(lines, kernel="triad"), "was not asked for", 1),
        (lambda lines: with_second(lines, precision="fp16"), "was not asked for", 1),
        (lambda lines: with_second(lines, working_set_bytes=0), "was not asked for", 1),
        (lambda lines: with_second(lines, memory="device"), "was not asked for", 1),
        (lambda lines: [*lines, lines[rows_of(lines)[0]]], "was not asked for", 2),
    ],
)
def test_what_was_not_asked_for_is_refused(
    plan: KernelPlan,
    good: Lines,
    tmp_path: Path,
    spoil: Callable[[Lines], Lines],
    words: str,
    n_kept: int,
) -> None:
    with pytest.raises(MeasurementError, match=words):
        keep(plan, tmp_path, spoil(copy.deepcopy(good)))
    ids = [spec.trial_id for spec in plan.trials]
    assert kept(tmp_path) == ids[:n_kept]
    # An honest measurement goes on from there, unless nothing is missing any more.
    rest = [line for line in good if line.get("row", {}).get("trial_id") not in ids[:n_kept]]
    assert keep(plan, tmp_path, rest) == ids


def test_its_error_is_one_readable_line(plan: KernelPlan, good: Lines, tmp_path: Path) -> None:
    error = {"kind": "KeyboardInterrupt", "what": "\x1b[2J\n" * 10**5, "where": "\n", "fix": None}
    with pytest.raises(MansardError) as caught:
        keep(plan, tmp_path, [good[0], {"type": "Aborted", "error": error}])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 20_000
    assert caught.value.exit_code == 1
