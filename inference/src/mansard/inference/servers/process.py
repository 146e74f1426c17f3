"""A server that ``--start`` names: started, awaited, watched, and ended with all it started.

The supervisor of programs (``programs/supervisor.py``) stands between: it ends every descendant
when it is told to, and also when Mansard was killed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from mansard.core.errors import MeasurementError
from mansard.core.text import masked, printable
from mansard.inference.programs.execution import BY_SIGNAL, cannot_run
from mansard.inference.programs.supervisor import STOP, WATCHED, processes_below
from mansard.inference.servers.connection import Address, ask

PORT = "{port}"
HEALTHY_S = 1800.0  # a model of many GB from a slow disk, and what an engine compiles
_LOOK_S = 0.05
_ASK_S = 10.0
_SUPERVISOR = Path(__file__).parents[1] / "programs" / "supervisor.py"
_TAIL_BYTES = 4096
_REPORT_S = 5.0  # until the supervisor has seen the end of what it started


def free_port() -> int:
    """A port of this machine that nothing listens on now."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Start(NamedTuple):
    """What was known when a server was started."""

    name: str  # of its program
    available_bytes: int | None  # of the machine's memory
    begun_s: float  # monotonic


class ServerProcess:
    """A server that was started here."""

    def __init__(
        self,
        supervisor: subprocess.Popen[bytes],
        report: IO[bytes],
        log: IO[bytes],
        start: _Start,
    ) -> None:
        self._supervisor, self._report, self._log, self._start = supervisor, report, log, start
        self.load_s: float | None = None
        self._said: list[str] = []

    @property
    def taken_bytes(self) -> int | None:
        """By how much MemAvailable is less than before the start."""
        now_bytes, before_bytes = read_available_bytes(), self._start.available_bytes
        return None if now_bytes is None or before_bytes is None else before_bytes - now_bytes

    def check(self) -> None:
        """Raises MeasurementError where the server has ended."""
        if self._supervisor.poll() is None and processes_below(self._supervisor.pid):
            return
        with suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(_REPORT_S)
        words = self._reported()
        how = f" with {_exit_words(int(words[7]))}" if words[:1] == ["ran"] else ""
        last = self._last_line()
        raise MeasurementError(
            f"the server has ended{how}{f'; it said last: {last}' if last else ''}",
            where=self._start.name,
            fix="start it by hand to see why",
        )

    def check_start(self) -> None:
        """Wait until it runs; raises ProgramFailed where there is no such program."""
        while self._supervisor.poll() is None and not processes_below(self._supervisor.pid):
            time.sleep(_LOOK_S)
        words = self._reported() if self._supervisor.poll() is not None else []
        if words[:1] == ["failed"]:
            raise cannot_run(self._start.name, int(words[1]))

    def _reported(self) -> list[str]:
        """What the supervisor said, once it has ended."""
        self._said = self._said or self._report.read().decode("utf-8", "replace").split()
        return self._said

    def wait_until_healthy(
        self, address: Address, say: Callable[[str], object], most_s: float = HEALTHY_S
    ) -> None:
        """Wait until it answers that it is ready; raises MeasurementError."""
        is_said = False
        while not _is_healthy(address):
            self.check()
            waited_s = time.monotonic() - self._start.begun_s
            if waited_s > most_s:
                raise MeasurementError(
                    f"the server was not ready within {most_s:g} s",
                    where=address.shown,
                    fix="is {port} in its command, and does it listen on this machine?",
                )
            if waited_s > _ASK_S and not is_said:
                say(f"waiting until the server at {address.shown} is ready")
                is_said = True
            time.sleep(_LOOK_S)
        self.load_s = time.monotonic() - self._start.begun_s

    def resident_bytes(self) -> int | None:
        """Resident memory of all its processes, summed; None where it cannot be read."""
        sizes = [read_resident_bytes(process) for process in processes_below(self._supervisor.pid)]
        known = [size for size in sizes if size is not None]
        return sum(known) if known else None

    def _last_line(self) -> str:
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - _TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return masked(printable(said[-1], 200)) if said else ""


def _exit_words(status: int) -> str:
    """How a process ended, as of wait(2)."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code if code >= 0 else BY_SIGNAL - code}"


@contextmanager
def started(command: Sequence[str], folder: str) -> Iterator[ServerProcess]:
    """Start ``command`` in ``folder``; whatever ends this ends it and all that it started.

    Raises ProgramFailed where it cannot be started. Its output is kept in a temporary file.
    """
    start = _Start(Path(command[0]).name, read_available_bytes(), time.monotonic())
    reading, writing = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # supervisor.py says why
    try:
        with tempfile.TemporaryFile() as log, open(reading, "rb") as report:  # noqa: PTH123
            try:
                supervisor = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", str(_SUPERVISOR), str(writing)),
                        *(",".join(str(int(number)) for number in mask), *command),
                    ],
                    cwd=folder,
                    pass_fds=(writing,),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for this process, which ends the server
                )
            finally:
                os.close(writing)
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                process = ServerProcess(supervisor, report, log, start)
                process.check_start()
                yield process
            finally:
                _end(supervisor)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _end(supervisor: subprocess.Popen[bytes]) -> None:
    """End the server as a Ctrl-C would, then harder: the supervisor does it within seconds."""
    with suppress(ProcessLookupError):
        supervisor.send_signal(STOP)
    while supervisor.returncode is None:
        with suppress(KeyboardInterrupt):
            supervisor.wait()


def _is_healthy(address: Address) -> bool:
    """Whether /health says so; a server without it is ready once it names its models."""
    try:
        status, _ = ask(address, "GET", "/health", timeout_s=_ASK_S)
        if status == 404:
            paths = ("/v1/models", "/api/version")
            return any(ask(address, "GET", path, timeout_s=_ASK_S)[0] == 200 for path in paths)
    except MeasurementError:
        return False
    return status == 200


def read_resident_bytes(process: int) -> int | None:
    """Resident memory of a process, by /proc/PID/status; None where it has ended."""
    try:
        text = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return _kib_of(text, "VmRSS:")


def read_available_bytes() -> int | None:
    """MemAvailable of the machine."""
    try:
        return _kib_of(Path("/proc/meminfo").read_text(encoding="utf-8"), "MemAvailable:")
    except OSError:
        return None


def _kib_of(text: str, name: str) -> int | None:
    line = next((line for line in text.splitlines() if line.startswith(name)), "")
    words = line.split()
    return int(words[1]) * 1024 if len(words) > 1 and words[1].isdecimal() else None
