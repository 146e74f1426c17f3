"""``python supervisor.py REPORT MASK COMMAND…``: starts a program, waits for all that it starts.

It is a process of its own, small and without threads, between Mansard and the program: the memory
of the process that starts a program is the least that the system reports of it, and every process
that the program starts and leaves becomes a child of this one (prctl(2), PR_SET_CHILD_SUBREAPER),
whose CPU time and end it sees. It imports nothing but the standard library.

The program stays in the process group of Mansard: it has the terminal, and a Ctrl-C reaches it as
it does without Mansard. A signal that is sent to the supervisor alone is handed on to the program.
The program does not outlive Mansard, which blocks the signals of WATCHED before it starts the
supervisor: none may end the supervisor while Python starts. MASK: the numbers of the signals that
were blocked before; the program gets them.

One line goes to the descriptor REPORT: ``ran START END USER_US SYSTEM_US PEAK_KIB OWN_KIB STATUS
N_LEFT NAME…`` with times of the monotonic clock in ns and STATUS as of wait(2); or ``failed ERRNO``
where the program cannot be started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
STOP = signal.SIGUSR1  # from Mansard: end the program, then yourself
PARENT_GONE = signal.SIGUSR2
_HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WATCHED = {signal.SIGCHLD, STOP, PARENT_GONE, *_HANDED_ON}
_RESET = (signal.SIGPIPE, signal.SIGXFSZ)  # which Python ignores
GRACE_S = 2.5  # processes left behind that use no CPU for this long are ended
_PATIENCE_S = (10.0, 3.0)  # from an interrupt to SIGTERM, then to SIGKILL
_REST_S = 0.3  # for processes of an interrupted program, and between two signals
_SENT_TWICE_S = 1.0  # a Ctrl-C reaches Mansard and the program at once


class Children:
    """All descendants of the program, and the resources used by those that have ended."""

    def __init__(self, program: int) -> None:
        self._program = program
        self.status: int | None = None  # of the program itself
        self.end_ns = 0
        self.user_s = self.system_s = 0.0
        self.peak_kib = 0

    def reap(self) -> bool:
        """Collect children that have ended; returns whether any is left."""
        while True:
            try:
                child, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if child == 0:
                return True
            self.end_ns = time.monotonic_ns()
            self.user_s += usage.ru_utime
            self.system_s += usage.ru_stime
            self.peak_kib = max(self.peak_kib, usage.ru_maxrss)
            if child == self._program:
                self.status = status


def processes_below(top: int) -> dict[int, tuple[str, int]]:
    """Name and CPU ticks of every descendant of ``top``.

    The ticks include those of its children that have ended.
    """
    parents: dict[int, tuple[int, str, int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if entry.isdecimal():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    text = file.read()
            except OSError:
                continue
            name, _, rest = text.partition("(")[2].rpartition(")")
            words = rest.split()  # state, parent, …; the 12th to the 15th are CPU ticks
            if words[0] != "Z":
                ticks = sum(map(int, words[11:15]))
                parents[int(entry)] = (int(words[1]), name, ticks)
    below: dict[int, tuple[str, int]] = {}
    is_new = True
    while is_new:
        is_new = False
        for process, (parent, name, ticks) in parents.items():
            if process not in below and (parent == top or parent in below):
                below[process] = (name, ticks)
                is_new = True
    return below


def is_busy(before: dict[int, int], now: dict[int, int]) -> bool:
    """Whether any process of ``now`` has used CPU time since ``before``; both in ticks."""
    return any(ticks > before.get(process, 0) for process, ticks in now.items())


def most_memory_kib() -> int:
    """The peak memory of this process alone.

    That of getrusage(2) includes the peak of the process that started it.
    """
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123
        lines = [line.split() for line in file if line.startswith("VmHWM:")]
    return int(lines[0][1]) if lines else 0


def signal_all(number: int) -> None:
    """Send a signal to every descendant of the program that still runs."""
    for process in processes_below(os.getpid()):
        try:
            os.kill(process, number)
        except OSError:  # it has ended, or runs as another user
            continue


class Supervision:
    """Waits for the program and its descendants, forwards signals, and ends what remains."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._terminal_s = -_SENT_TWICE_S  # when a Ctrl-C came from the terminal
        self._deadline_s: float | None = None  # once it is to end
        self._stages = [signal.SIGTERM, signal.SIGKILL]  # still to be sent when that is over
        self._ticks: dict[int, int] | None = None  # of each that is left, when last looked at
        self.left: list[str] = []  # names of what had to be ended

    def wait(self) -> None:
        """Wait until no process is left that can be ended."""
        while self._children.reap():
            if self._deadline_s is not None:
                wait_s = max(0.0, self._deadline_s - time.monotonic())
                if self._children.status is not None:  # what it left need not be waited for
                    wait_s = min(wait_s, _REST_S)
            elif self._children.status is not None:
                wait_s = GRACE_S
            else:
                self._take(signal.sigwaitinfo(WATCHED))
                continue
            info = signal.sigtimedwait(WATCHED, wait_s)
            if info is not None:
                self._take(info)
            elif not self._insist():
                return

    def _take(self, info: signal.struct_siginfo) -> None:
        now_s = time.monotonic()
        if info.si_signo == PARENT_GONE:
            signal_all(signal.SIGTERM)
            self._stages, self._deadline_s = [signal.SIGKILL], now_s + _PATIENCE_S[1]
        elif info.si_signo in _HANDED_ON and info.si_code > 0:
            self._terminal_s = now_s  # the kernel sends it to the program as well
        elif info.si_signo in _HANDED_ON:
            signal_all(info.si_signo)
        elif info.si_signo == STOP and self._deadline_s is None:
            if now_s - self._terminal_s > _SENT_TWICE_S:
                signal_all(signal.SIGINT)
            self._deadline_s = now_s + _PATIENCE_S[0]

    def _insist(self) -> bool:
        """Escalate after a time without a signal; returns whether to keep waiting."""
        if self._deadline_s is None:
            left = processes_below(os.getpid())
            before, self._ticks = (
                self._ticks,
                {process: ticks for process, (_, ticks) in left.items()},
            )
            if before is None or is_busy(before, self._ticks):
                return True
            self._end_rest(left)
            return False
        if not self._stages:
            return False  # what cannot be killed is left
        signal_all(self._stages.pop(0))
        self._deadline_s = time.monotonic() + _PATIENCE_S[1]
        return True

    def _end_rest(self, left: dict[int, tuple[str, int]]) -> None:
        """End processes that the program left behind; they do not count as part of the run."""
        end_ns = self._children.end_ns
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal_all(number)
            deadline_s = time.monotonic() + 1.0
            while self._children.reap() and time.monotonic() < deadline_s:
                if number == signal.SIGKILL:
                    signal_all(number)  # also what was started since
                signal.sigtimedwait(WATCHED, 0.05)
        self._children.end_ns = end_ns
        self.left = [name for name, _ in left.values()]


def main(arguments: list[str]) -> None:
    """Run the program, and report how it ended."""
    report, mask, command = int(arguments[0]), arguments[1], arguments[2:]
    os.set_inheritable(report, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    # If it is ignored, ended children cannot be waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    libc = ctypes.CDLL(None)
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_SET_PDEATHSIG, int(PARENT_GONE), 0, 0, 0)
    start_ns = time.monotonic_ns()
    try:
        program = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            setsigmask=[int(number) for number in mask.split(",") if number],
            setsigdef=_RESET,
        )
    except OSError as error:
        os.write(report, f"failed {error.errno}".encode())
        return
    children = Children(program)
    supervision = Supervision(children)
    supervision.wait()
    left = supervision.left
    own_kib = most_memory_kib()
    status = children.status if children.status is not None else signal.SIGKILL
    numbers = (
        start_ns,
        children.end_ns,
        round(children.user_s * 1e6),
        round(children.system_s * 1e6),
        children.peak_kib,
        own_kib,
        int(status),
        len(left),
    )
    names = " ".join("".join(name.split()) for name in left[:8])
    said = f"ran {' '.join(map(str, numbers))} {names}"
    try:  # noqa: SIM105 - this process loads no more than it needs
        os.write(report, said.encode("utf-8", "replace"))
    except BrokenPipeError:  # Mansard was killed
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
