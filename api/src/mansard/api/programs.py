"""A program of the user's, measured in one power mode after the other; the board is put back."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.boards import board_root
from mansard.api.measurements import ModePlan, measure_modes
from mansard.api.reporter import SILENT, ProgressDisplay, Reporter
from mansard.api.sweeps import SweepRequest, choose_modes, failure_of
from mansard.api.targets import LocalTarget
from mansard.core.documents import read_document
from mansard.core.errors import MansardError, UsageError
from mansard.core.hashing import ID_CHARACTERS
from mansard.core.jsonl import read_rows
from mansard.core.records import Manifest, ProgramRun
from mansard.core.text import is_utf8, printable
from mansard.core.version import VERSION
from mansard.device.meters.finding import find_meters

if TYPE_CHECKING:
    from mansard.analytics.predict.measured import ProgramTimes
    from mansard.core.records import MachineIdentity, PowerMode
    from mansard.device.controller.controller import LocalController
    from mansard.inference.programs.plan import ProgramTrial
    from mansard.measuring.events import Measurer

_LONGEST_NAME = 60
_HASHED_BYTES = 64 << 20  # of a larger file its size, its first and its last part
_PART_BYTES = 1 << 20
MOST_RUNS = 100_000


class ProgramRequest(SweepRequest, frozen=True, kw_only=True):
    """Which program is to be measured, and how; the defaults are those of the command."""

    command: tuple[str, ...]
    name: str | None = None  # what it is called; None: its command
    metric: str | None = None  # regular expression with one group: a number that it prints
    n_runs: int | None = None  # in each mode; None: until its time is known
    is_again: bool = False  # also where it was measured before
    stdout: int = 1  # descriptor that the program's standard output goes to


class MeasuredProgram(msgspec.Struct, frozen=True):
    """A program in one mode; ``manifest`` says in which, and on which machine."""

    manifest: Manifest
    run: ProgramRun
    times: tuple[ProgramTimes, ...]  # of the program as a whole, and of each window by name


class ProgramResult(msgspec.Struct, frozen=True):
    """A program in the modes asked for, measured now or before, and what could not be measured."""

    measured: tuple[MeasuredProgram, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one."""
        if self.failure is not None:
            raise self.failure


def measure_program(request: ProgramRequest, reporter: Reporter = SILENT) -> ProgramResult:
    """Run a program in each mode as often as it takes, with time, memory and energy.

    Its streams are those of this process. What was measured before is not measured again, unless
    asked for. Raises ProgramFailed with the program's own exit code where it fails: the modes
    before are kept, and the board is put back; UsageError, and what keeps a board from being
    measured.
    """
    from mansard.device.controller.controller import LocalController
    from mansard.inference.programs.metric import compile_metric
    from mansard.inference.programs.windows import VARIABLE

    if request.hosts:
        raise UsageError(
            "a program is measured on the machine that it runs on, not with --host",
            fix="run 'mansard measure -- COMMAND' on the board",
        )
    if VARIABLE in os.environ:
        raise UsageError(
            "this runs inside a program that is being measured",
            fix="measure one of the two; mansard.api.window marks a part of a program",
        )
    if request.metric is not None:
        compile_metric(request.metric)
    if request.n_runs is not None and not 1 <= request.n_runs <= MOST_RUNS:
        raise UsageError(f"--repeat is from 1 to {MOST_RUNS}", fix="leave it out")
    trial = plan_trial(request)
    root = board_root(request.board)
    controller = LocalController(root)
    modes = choose_modes(controller, request, reporter)
    reporter = _BesideOutput(reporter, is_told=len(modes) > 1)
    plans = [_plan(trial, request, controller.identify(), mode) for mode in modes]
    target = _ProgramTarget(root, controller, request.stdout, reporter)
    done = measure_modes(plans, target, request.runs, reporter)
    run_ids = [each.plan.run_id for each in plans if each.plan.run_id in done.run_ids]
    return ProgramResult(_read(request.runs, run_ids), failure_of(done, len(modes)))


def plan_trial(request: ProgramRequest) -> ProgramTrial:
    """What is to be run; raises ProgramFailed where there is no such program, UsageError."""
    from mansard.inference.programs.plan import ProgramTrial

    if not request.command or not request.command[0]:
        raise UsageError("no command is given", fix="mansard measure -- python3 my_program.py")
    folder = _present_folder()
    for word in (*request.command, folder):
        if "\0" in word or not is_utf8(word):
            raise UsageError(
                f"{word!r} is no text in UTF-8, and could not be kept",
                fix="rename it, or call it from a script",
            )
    program = _find_program(request.command[0])
    files = [program, *(path for word in request.command[1:] if (path := Path(word)).is_file())]
    return ProgramTrial(
        workload=printable(request.name or _short_name(request.command)),
        command=request.command,
        folder=folder,
        program_hash=_hash_files(files),
        metric_pattern=request.metric,
        unknown={} if request.metric is not None else {"metric_pattern": "none was asked for"},
    )


def _find_program(name: str) -> Path:
    """The file that ``name`` runs; raises ProgramFailed with a shell's exit code."""
    from mansard.inference.programs.execution import NOT_FOUND, NOT_RUNNABLE, ProgramFailed

    found = shutil.which(name)
    if found is not None:
        return Path(found)
    is_there = os.path.lexists(name) and "/" in name
    number = errno.EACCES if is_there else errno.ENOENT
    raise ProgramFailed(
        f"cannot be run: {os.strerror(number).lower()}",
        NOT_RUNNABLE if is_there else NOT_FOUND,
        where=name,
        fix="check that it is there and that you may run it",
    )


def _short_name(words: Sequence[str]) -> str:
    """What a command is called: its words, told apart by a hash where they are many."""
    name = shlex.join([Path(words[0]).name, *words[1:]])
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: _LONGEST_NAME - 8]}… {mark}"


def _present_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise UsageError("the present folder is gone", fix="change to another folder") from error


def _hash_files(files: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in files:
        found.update(_digest(path))
    return found.hexdigest()[:ID_CHARACTERS]


def _digest(path: Path) -> bytes:
    """A file by its content; one that may not be read by its size."""
    found = hashlib.sha256()
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        found.update(str(size).encode())
        with path.open("rb") as file:
            if size <= _HASHED_BYTES:
                while piece := file.read(_PART_BYTES):
                    found.update(piece)
            else:
                found.update(file.read(_PART_BYTES))
                file.seek(-_PART_BYTES, os.SEEK_END)
                found.update(file.read(_PART_BYTES))
    return found.digest()


def _plan(
    trial: ProgramTrial, request: ProgramRequest, machine: MachineIdentity, mode: PowerMode
) -> ModePlan:
    """The newest run of the program in this mode; the next one where it is to be measured again.

    Runs of the same plan differ in its seed alone.
    """
    from mansard.inference.programs.plan import ProgramPlan, program_protocol
    from mansard.measuring.plan import cpus_of
    from mansard.measuring.protocol import find_protocol
    from mansard.measuring.runner import missing_trials

    find_protocol(request.profile)  # an unknown one is an error
    plan = ProgramPlan(
        profile=request.profile,  # type: ignore[arg-type]  # checked above
        machine=machine,
        processor="cpu",
        gpu=None,
        mode=mode,
        cpus=cpus_of(machine, mode),
        trials=(trial,),
        protocol=program_protocol(request.profile, request.n_runs),  # type: ignore[arg-type]
        seed=0,
        versions={"mansard": VERSION},
        unknown={"gpu": "not asked: what opens a GPU keeps it awake while a program is metered"},
    )
    is_there = not missing_trials(plan, request.runs)
    while is_there:
        later = msgspec.structs.replace(plan, seed=plan.seed + 1)
        is_there = not missing_trials(later, request.runs)
        if is_there or request.is_again:
            plan = later
    n_missing = len(missing_trials(plan, request.runs))
    return ModePlan(plan, n_missing, of=trial.workload, is_bounded=False)


def _read(runs: Path, run_ids: Sequence[str]) -> tuple[MeasuredProgram, ...]:
    from mansard.analytics.data.names import device_labels
    from mansard.analytics.predict.measured import program_times
    from mansard.inference.programs.trial import PROGRAMS

    manifests = [
        read_document(runs / run_id / "manifest.json", Manifest, runs) for run_id in run_ids
    ]
    devices = device_labels(manifests)
    found = []
    for manifest in manifests:
        run_id, mode = manifest.run_id, manifest.mode_read_back.name
        (row,) = read_rows(runs / run_id / PROGRAMS.rows_name, ProgramRun, runs).rows
        found.append(MeasuredProgram(manifest, row, program_times(row, devices[run_id], mode)))
    return tuple(found)


class _ProgramTarget(LocalTarget):
    """This machine, with a program's streams passed on and its notes told."""

    def __init__(
        self, root: Path, controller: LocalController, stdout: int, reporter: Reporter
    ) -> None:
        super().__init__(root, controller)
        self._stdout, self._reporter = stdout, reporter

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of programs with this machine's meters."""
        from mansard.inference.programs.trial import Passing, program_kind
        from mansard.measuring.measurer import LocalMeasurer

        kind = program_kind(Passing(self._reporter.note, self._stdout))
        meters = find_meters(self._root, self.controller.identify())
        return LocalMeasurer(meters=meters, root=self._root, kind=kind, files=files)


class _BesideOutput:
    """A reporter beside a program that has the terminal: a note for each mode, and no bar."""

    def __init__(self, reporter: Reporter, *, is_told: bool) -> None:
        self._is_told = is_told
        self.note, self.ask = reporter.note, reporter.ask

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """Note the title when the program starts, where there are several modes."""
        yield _Titled(title, self.note if self._is_told else SILENT.note)


class _Titled:
    def __init__(self, title: str, note: Callable[[str], None]) -> None:
        self._title, self._note = title, note

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Note the title, before the program runs."""
        del remaining_s, now
        if n_done < n_total:
            self._note(self._title)
