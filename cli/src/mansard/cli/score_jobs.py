"""Scoring many files, several at a time, with progress; one that fails stops no other."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from mansard.cli.console import show_progress
from mansard.cli.score_request import Outcome, Request, score_model
from mansard.core.errors import StorageError


def score_models(models: Sequence[Path], request: Request, jobs: int | None) -> list[Outcome]:
    """One Outcome for each file, in the order of ``models``; ``jobs`` None: as many as CPUs."""
    if len(models) == 1:
        return [score_model(models[0], request)]
    outcomes: dict[Path, Outcome] = {}
    started_s = time.monotonic()
    n_jobs = min(jobs or os.cpu_count() or 1, len(models))
    with show_progress("Scoring") as progress:
        for outcome in _outcomes(models, request, n_jobs):
            outcomes[outcome.path] = outcome
            n_done = len(outcomes)
            left_s = (time.monotonic() - started_s) / n_done * (len(models) - n_done)
            progress.update(n_done, len(models), left_s, outcome.path.name)
    return [outcomes[path] for path in models]


def _outcomes(models: Sequence[Path], request: Request, n_jobs: int) -> Iterator[Outcome]:
    if n_jobs == 1:
        yield from (score_model(path, request) for path in models)
        return
    left = list(models)
    while left:
        done: set[Path] = set()
        for outcome in _scored(left, request, n_jobs):
            done.add(outcome.path)
            yield outcome
        left = [path for path in left if path not in done]
        if left and n_jobs == 1:
            yield _killed(left.pop(0))
        # A process that is killed takes all of them along. One alone works in order, so
        # that the first file without an outcome is the one that it was killed at.
        n_jobs = 1


def _scored(models: Sequence[Path], request: Request, n_jobs: int) -> Iterator[Outcome]:
    """Outcomes of processes of their own; fewer than ``models`` where one of them is killed."""
    # Processes are started anew: a forked one would share whatever threads hold.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_begin)
    try:
        futures = []
        with contextlib.suppress(BrokenProcessPool):  # a first file may end it already
            for path in models:
                futures.append(executor.submit(score_model, path, request))
        for future in as_completed(futures):
            with contextlib.suppress(BrokenProcessPool):
                yield future.result()
    finally:
        # After an interrupt what has not begun is dropped; what runs ends in seconds.
        executor.shutdown(wait=True, cancel_futures=True)


def _killed(path: Path) -> Outcome:
    error = StorageError(
        "the process that scored it was killed, maybe for want of memory",
        where=str(path),
        fix="score it alone, or with fewer --jobs",
    )
    return Outcome(path, (), (error,))


def _begin() -> None:
    # Ctrl-C reaches the whole group; the first process alone decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End when the first process is gone, killed too: nobody else would end this one."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
