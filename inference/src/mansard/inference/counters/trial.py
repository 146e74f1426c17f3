"""The kind of measurement "counters": a network runs under Nsight Compute, whose table is kept.

It runs on the machine itself: reading counters needs a permission (root, or a driver that permits
all users), which measuring containers do not have.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, cast

import msgspec

from mansard.core.errors import MansardError, MeasurementError
from mansard.core.formats.ncu import MESSAGE
from mansard.core.processes.programs import end_program, let_interrupts_end_waits, start_program
from mansard.core.records import CounterRun
from mansard.core.storage.files import check_descriptors, make_folder, replacing
from mansard.core.storage.leftovers import temporary_folder
from mansard.inference.counters.ncu import (
    Ncu,
    command_line,
    has_failed_program,
    is_without_kernels,
    refusal_of,
)
from mansard.inference.counters.profiled import ProfiledJob, ProfiledResult
from mansard.inference.plan import CounterPlan, CounterTrial
from mansard.inference.rows import head, why_no_batch
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened

EXPORTS = "exports"  # folder of the tables, in that of a run
_LONGEST_S = 6 * 3600.0  # of one network: a kernel takes some ten replays, a network has thousands
_PATIENCE_S = 5.0
_PIECE_BYTES = 1 << 20
_MOST_MESSAGES = 200
_MESSAGE_CHARACTERS = 500
# As in measuring/guarded.py: it finds what this process finds, and nothing in the present folder.
_CHILD = (
    "import runpy, sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "runpy.run_module('mansard.inference.counters.profiled', run_name='__main__', alter_sys=True)"
)


class Counting(msgspec.Struct, frozen=True):
    """What is not part of the plan: the program, and the folder of runs that stores its tables."""

    ncu: Ncu
    runs: Path


class _FailedError(Exception):
    """The network cannot be run; the message is the reason."""


def counter_kind(counting: Counting | None = None) -> MeasurementKind[CounterPlan, CounterRun]:
    """The kind "counters"; failed trials are repeated by the next command."""
    return MeasurementKind(
        "counters",
        CounterPlan,
        CounterRun,
        partial(_open, counting=counting),
        rows_name="counter_runs.jsonl",
        is_result=lambda row: row.failure is None,
    )


@contextmanager
def _open(plan: CounterPlan, counting: Counting | None) -> Iterator[Opened[CounterRun]]:
    if counting is None:
        raise MeasurementError("counters are read on the machine itself alone", fix="report this")

    def measure(spec: CounterTrial, instruments: Instruments) -> CounterRun:
        return count_network(spec, plan, instruments, counting)

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


def count_network(
    spec: CounterTrial, plan: CounterPlan, instruments: Instruments, counting: Counting
) -> CounterRun:
    """Run one network under Nsight Compute; its table is in the run's folder before the row is.

    What the engine cannot run is a row with ``failure``. Raises DeniedError where counters may not
    be read, MeasurementError for what else Nsight Compute refuses, StorageError.
    """
    if instruments.files is None:
        raise MeasurementError("no folder of networks was given", fix="report this")
    folder = make_folder(counting.runs / plan.run_id / EXPORTS, counting.runs)
    export = folder / f"{spec.trial_id}.csv"
    job = ProfiledJob(
        trial=spec,
        folder=str(instruments.files.absolute()),
        seed=plan.seed,
        n_threads=spec.n_threads or len(plan.cpus),
    )
    instruments.announce(f"counting {spec.title}", _LONGEST_S)
    result, failure = None, None
    with Observation(instruments, plan) as seen:
        try:
            with replacing(export, counting.runs) as stream:
                result = _run(job, counting.ncu, stream)
        except _FailedError as error:
            failure = str(error)
    unknown = why_no_batch(spec)
    if failure is None:
        unknown["failure"] = "it ran"
    else:
        unknown["export"] = f"it could not be run: {failure}"
    return CounterRun(
        **head(spec, plan),
        phase=spec.phase,
        provider=spec.provider,
        options=result.options if result else {},
        inputs=spec.inputs,
        tool=f"Nsight Compute {counting.ncu.version}",
        chip=spec.chip,
        metrics=spec.metrics,
        lacking=spec.lacking,
        n_calls=spec.n_calls,
        cache_control=spec.cache_control,
        export=None if failure is not None else f"{EXPORTS}/{export.name}",
        failure=failure,
        conditions=seen.conditions,
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        unknown=unknown,
    )


def _run(job: ProfiledJob, ncu: Ncu, export: IO[bytes]) -> ProfiledResult:
    """Run ``ncu``, its table into ``export``; raises _FailedError, and as ``count_network``."""
    with temporary_folder() as folder:
        places = [str(folder / name) for name in ("job", "result", "alive")]
        Path(places[0]).write_bytes(msgspec.json.encode(job))
        os.mkfifo(places[2])
        alive = os.open(places[2], os.O_RDWR)  # kept open: the network's process ends with us
        try:
            program = [sys.executable, "-I", "-c", _CHILD, ":".join(sys.path), *places]
            trial = job.trial
            command = command_line(
                ncu, program, metrics=trial.metrics, cache_control=trial.cache_control
            )
            code, messages, n_rows = _stream(command, folder, export)
        finally:
            os.close(alive)
        result = _read(Path(places[1]))
    refused = refusal_of(messages)
    if refused is not None:
        raise refused
    if result is not None and result.failure is not None:
        raise _FailedError(result.failure)
    if result is None and has_failed_program(messages):
        program_lines = [line for line in messages if not MESSAGE.match(line)]
        raise _FailedError(
            f"its process ended early{f': {program_lines[-1]}' if program_lines else ''}"
        )
    if is_without_kernels(messages):
        raise MeasurementError(
            "no kernel ran on the GPU while counters were read",
            where="ncu",
            fix="run the network on the GPU: --provider cuda or tensorrt",
        )
    if code or result is None or not n_rows:
        said = messages[-1] if messages else "it says nothing"
        raise MeasurementError(
            f"ended with code {code} and {n_rows} lines of counters: {said}",
            where="ncu",
            fix="run 'ncu' by hand on a CUDA program to see more",
        )
    return result


def _stream(command: list[str], folder: Path, export: IO[bytes]) -> tuple[int, list[str], int]:
    """The exit code, the last messages in its output, and the lines of the table.

    Raises MeasurementError where it takes too long.
    """
    messages: deque[str] = deque(maxlen=_MOST_MESSAGES)
    # TMPDIR: what ncu leaves when it is killed goes with the folder.
    environment = {**os.environ, "TMPDIR": str(folder)}
    n_rows = 0
    with (folder / "complaints").open("w+b") as complaints:
        process = start_program(
            command, stderr=complaints, environment=environment, error=MeasurementError
        )
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            end_program(process, patience_s=0.0)

        watchdog = threading.Timer(_LONGEST_S, end)
        watchdog.daemon = True
        watchdog.start()
        try:
            let_interrupts_end_waits()
            with io.BufferedReader(cast(io.RawIOBase, process.stdout)) as output:
                for piece in iter(partial(output.readline, _PIECE_BYTES), b""):
                    # The table comes last; what is before it, the program or ncu said.
                    if piece.startswith(b"==") or not (n_rows or piece.startswith(b'"')):
                        _keep(messages, piece)
                    elif piece.strip():
                        n_rows += 1
                        export.write(piece)
            code = process.wait()
        finally:
            watchdog.cancel()
            end_program(process, patience_s=_PATIENCE_S)
        if is_late.is_set():
            raise MeasurementError(
                f"had not ended after {_LONGEST_S / 3600:.0f} hours",
                where="ncu",
                fix="count fewer calls, or a smaller network",
            )
        complaints.seek(max(complaints.seek(0, os.SEEK_END) - _PIECE_BYTES, 0))
        for piece in complaints:
            _keep(messages, piece)
    return code, list(messages), n_rows


def _keep(messages: deque[str], piece: bytes) -> None:
    line = piece.decode("utf-8", "replace").strip()[:_MESSAGE_CHARACTERS]
    is_progress = (match := MESSAGE.match(line)) is not None and match[1] == "PROF"
    if line and not is_progress:
        messages.append(line)


def _read(path: Path) -> ProfiledResult | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProfiledResult)
    except (OSError, MansardError, msgspec.DecodeError) as error:
        check_descriptors(error, path)
        return None


COUNTERS = counter_kind()
