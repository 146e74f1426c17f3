"""A board elsewhere on which a program or a server is measured, without a container: over ssh."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mansard.containers.fleet import BoardWorker
from mansard.containers.host_process import (
    HostProcess,
    HostPythonError,
    host_controller,
    host_process,
)
from mansard.containers.hosts import Host
from mansard.containers.measurer import HEARTBEAT_OPTION
from mansard.core.errors import (
    RESUMES,
    ContainerError,
    DeniedError,
    DeviceError,
    StorageError,
    UsageError,
)
from mansard.core.processes.line_channel import (
    DECODE_ERRORS,
    HEARTBEAT_S,
    encode_line,
    from_wire,
)
from mansard.core.processes.programs import write_all
from mansard.core.text import printable
from mansard.inference.hosted import (
    Described,
    DescribedProgram,
    DescribedServer,
    Hosted,
)
from mansard.measuring.events import Aborted, Done, Note, OutputPiece, Stream, passed_decoder
from mansard.measuring.kind import encode_job, find_kind
from mansard.sweeps.reporter import BoardReporter
from mansard.sweeps.targets import WantedImage, controller_in_container, remedies_of

if TYPE_CHECKING:
    from mansard.core.records import Processor
    from mansard.device.cards import SeenCards
    from mansard.device.controller.remote import RemoteController
    from mansard.inference.engine_files import EngineFiles
    from mansard.inference.engines.engine import EngineProbe
    from mansard.measuring.events import Event, Measurer
    from mansard.measuring.kind import Job
    from mansard.microbench.plan import Probe
    from mansard.sweeps.reporter import Reporter
    from mansard.sweeps.sweep import SweepRequest

_MODULE = "mansard.inference.hosted"
_SILENCE_S = 180.0  # of the process there, which sends a heartbeat every 10 s
_DESCRIBE_S = 900.0  # to hash a gigabyte from a slow card, or to hear from a server
_MOST_EVENTS = 1000  # beside those of its trials
_SHOWN_CHARACTERS = 200
_LONGEST_LINE_BYTES = 1 << 16  # that is held back until it ends
FILES_CHANGED = (
    "a file among the arguments or of --depends changed during the measurement: the next command "
    "measures the program again; name files that it writes inside a script"
)


class HostOutput:
    """Writes what a program on a host prints to our own streams; ``stdout``: the descriptor.

    ``prefix`` goes before each line; then lines are written whole, because several hosts print at
    once.
    """

    def __init__(self, prefix: str = "", stdout: int = 1) -> None:
        self._prefix = prefix.encode()
        self._handles: dict[Stream, int] = {"stdout": stdout, "stderr": 2}
        self._rests: dict[Stream, bytes] = {"stdout": b"", "stderr": b""}

    def write(self, stream: Stream, data: bytes) -> None:
        """Write ``data``; raises BrokenPipeError where nobody reads."""
        if self._prefix:
            *lines, rest = (self._rests[stream] + data).split(b"\n")
            if len(rest) > _LONGEST_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            self._rests[stream] = rest
            data = b"".join(self._prefix + line + b"\n" for line in lines)
        write_all(self._handles[stream], data)

    def end(self) -> None:
        """Write the last lines, which have no end."""
        for stream, rest in self._rests.items():
            self._rests[stream] = b""
            if rest:
                write_all(self._handles[stream], self._prefix + rest + b"\n")


class HostTarget:
    """A board over ssh that measures a program or a server which is there.

    ``hosted``: what is to be measured; ``described``: the same as the host describes it.
    """

    image = None

    def __init__(
        self,
        host: Host,
        controller: RemoteController,
        hosted: Hosted,
        described: DescribedProgram | DescribedServer,
        reporter: Reporter,
        output: HostOutput,
    ) -> None:
        self.controller, self.described = controller, described
        if isinstance(described, DescribedServer):
            hosted = msgspec.structs.replace(hosted, serving=described.serving)
        self._host, self._hosted = host, hosted
        self._reporter, self._output = reporter, output
        self._running: HostProcess | None = None
        self.has_measured = False

    def probe(self, processor: Processor) -> Probe:
        """Always raises: kernels are measured in a container."""
        raise self._needs_container(f"kernels on the {processor}")

    def seen_cards(self) -> SeenCards:
        """Always raises, as ``probe`` does."""
        raise self._needs_container("kernels")

    def engine_probe(self, engine: str) -> EngineProbe:
        """Always raises: networks are measured in a container."""
        raise self._needs_container(f"networks on {engine}")

    def send(self, files: Path, reporter: Reporter) -> None:
        """Always raises, as ``engine_probe`` does."""
        del files, reporter
        raise self._needs_container("networks")

    def builder(self, files: Path, engine_files: EngineFiles) -> Measurer:
        """Always raises, as ``engine_probe`` does."""
        del files, engine_files
        raise self._needs_container("builds of engine files")

    def _needs_container(self, what: str) -> UsageError:
        return UsageError(f"{what} need a container on the host", where=self._host.name)

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer in a process on the host, which ends with each job."""
        del files
        return self._measure

    def _measure(self, job: Job) -> Iterator[Event]:
        kind = find_kind(job.plan.kind)
        decoder = passed_decoder(kind.row_type)
        n_left = _MOST_EVENTS + kind.most_events * len(job.plan.trials)
        self.has_measured = True
        with self._process() as process:
            _ask(process, encode_line(self._hosted) + encode_job(job))
            over = threading.Event()
            threading.Thread(target=_beat, args=(process, over), daemon=True).start()
            try:
                while n_left:
                    line = _receive(process, self._host, _SILENCE_S, self.controller.check)
                    event = _decode(decoder, line, self._host)
                    if isinstance(event, OutputPiece):
                        self._output.write(event.stream, event.data)
                        continue
                    n_left -= 1
                    if isinstance(event, Note):
                        self._reporter.note(event.line)
                        continue
                    yield event
                    if isinstance(event, Done | Aborted):
                        return
            finally:
                over.set()
                with contextlib.suppress(OSError):
                    self._output.end()
        raise ContainerError(
            "reports more events than its job can have", where=self._host.name, fix=RESUMES
        )

    def stop(self) -> None:
        """End what is measured, then the controller, which puts the board back; for any thread."""
        running = self._running
        if running is not None:
            running.end()
            running.wait_for_end()
        self.controller.end()

    @contextlib.contextmanager
    def _process(self) -> Iterator[HostProcess]:
        with _hosted_process(self._host, *HEARTBEAT_OPTION) as process:
            self._running = process
            try:
                yield process
            finally:
                self._running = None


def _hosted_process(host: Host, *options: str) -> AbstractContextManager[HostProcess]:
    return host_process(host, _MODULE, *host.board_option, *options)


def _ask(process: HostProcess, lines: bytes) -> None:
    """Send what is to be done; where it cannot be sent, ``_receive`` reports why."""
    with contextlib.suppress(OSError):
        process.send(lines)


def _receive(
    process: HostProcess, host: Host, silence_s: float, check: Callable[[], object] = lambda: None
) -> bytes:
    """The next line; raises ContainerError where there is none."""
    try:
        line = process.receive(silence_s, check)
    except OSError as error:
        why = str(error)
    else:
        if line:
            return line
        why = "it has ended"
    last_words = process.close()
    raise ContainerError(
        f"the measuring process there has ended: {last_words or why}",
        where=host.name,
        fix=f"look at the board and the network to it; {RESUMES}",
    )


AnyMessage = TypeVar("AnyMessage")


def _decode(decoder: msgspec.json.Decoder[AnyMessage], line: bytes, host: Host) -> AnyMessage:
    try:
        return decoder.decode(line)
    except DECODE_ERRORS as error:
        shown = printable(line[:_SHOWN_CHARACTERS].decode("utf-8", "replace"))
        raise DeviceError(
            f"the measuring process there wrote what is not an answer ({error}): {shown}",
            where=host.name,
            fix=f"report this; {RESUMES}",
        ) from error


def _describe(host: Host, hosted: Hosted) -> DescribedProgram | DescribedServer:
    """What it is on the host; raises what keeps it from being measured there."""
    with _hosted_process(host, "--describe") as process:
        _ask(process, encode_line(hosted))
        line = _receive(process, host, _DESCRIBE_S)
    described: Described = _decode(msgspec.json.Decoder(Described), line, host)
    if isinstance(described, Aborted):
        raise from_wire(described.error)
    return described


def _beat(process: HostProcess, over: threading.Event) -> None:
    """Send heartbeats until ``over`` is set."""
    with contextlib.suppress(OSError):
        while not over.wait(HEARTBEAT_S):
            process.beat()


def check_input(reporter: Reporter) -> None:
    """Refuse a file as standard input, and note a pipe: programs on hosts have an empty one."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return
    if stat.S_ISREG(mode):
        raise UsageError(
            "standard input is a file of this machine, and a program on a host cannot read it",
            fix="copy it there: -- sh -c './program < FILE'",
        )
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        reporter.note(
            "standard input is not passed to hosts: the program reads an empty input there"
        )


def refuse_folder(remote_folder: str | None) -> None:
    """Raise UsageError for a folder on hosts without a host."""
    if remote_folder is not None:
        raise UsageError("--remote-folder needs a host", fix="add --host NAME")


def _note_change(
    before: DescribedProgram, now: DescribedProgram | DescribedServer, reporter: Reporter
) -> None:
    if isinstance(now, DescribedProgram) and now.trial.program_hash != before.trial.program_hash:
        reporter.note(FILES_CHANGED)


def restore_host(
    worker: BoardWorker, wanted: WantedImage, reporter: Reporter, *, is_dry_run: bool
) -> tuple[str, ...]:
    """Restore the board of ``worker``; returns what was restored, or would be, in lines.

    The user who logs in does so. A container does where this user may not, where the host's Python
    cannot, or where the host is an engine of this machine. Raises MansardError.
    """
    host = worker.host
    reporter = BoardReporter(worker.name, worker.send, reporter)

    def restore(controller: RemoteController) -> tuple[str, ...]:
        worker.on_stop(controller.end)
        return controller.planned_restore() if is_dry_run else controller.put_back()

    with remedies_of(host):
        if host.ssh is not None:
            try:
                with host_controller(host) as controller:
                    return restore(controller)
            except (DeniedError, StorageError, HostPythonError) as error:
                reporter.note(f"{error.what}: its controller runs in a container")
        with controller_in_container(host, wanted, reporter) as controller:
            return restore(controller)


@contextlib.contextmanager
def host_target(
    host: Host, hosted: Hosted, request: SweepRequest, reporter: Reporter, output: HostOutput
) -> Iterator[HostTarget]:
    """The board of ``host`` with what is to be measured on it; it is put back by its controller.

    Where modes are to be set, and the user who logs in may not, the controller runs in a container
    there, as it does for kernels and networks. Raises UsageError, ContainerError, and what is wrong
    with the board.
    """
    with remedies_of(host):
        described = _describe(host, hosted)
        in_container = (request.mode or host.modes) is not None and not described.may_set
        if in_container:
            reporter.note("this user may not set its modes: its controller runs in a container")
        with (
            controller_in_container(host, request.wanted_image, reporter)
            if in_container
            else host_controller(host)
        ) as controller:
            target = HostTarget(host, controller, hosted, described, reporter, output)
            yield target
        if target.has_measured and isinstance(described, DescribedProgram):
            _note_change(described, _describe(host, hosted), reporter)
