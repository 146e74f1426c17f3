"""A module of ours on another host, over the system's ssh: without a container, as the SSH user.

The host needs a Python 3.10 or newer with msgspec. Our own rooms are sent to it once, into the
user's cache (``~/.cache/mansard``), in a folder that is named by their content; so both
ends are of one version. Lines go in and come out through ssh. The process over there ends
with its input, so that nothing of it outlives this process, ssh, or the connection. Source: ssh(1),
"XDG Base Directory Specification".
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import select
import shlex
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from mansard.containers.hosts import Host
from mansard.containers.images.building import room_files, write_tar
from mansard.containers.tunnel import explain_ssh, ssh_command
from mansard.core.errors import ContainerError, UsageError
from mansard.core.hashing import ID_CHARACTERS, file_hash
from mansard.core.processes.line_channel import HEARTBEAT, LineSplitter
from mansard.core.processes.programs import end_program, start_program, write_all
from mansard.core.text import masked, printable
from mansard.device.controller.remote import RemoteController, remote_controller

CONNECT_S = 90.0  # key exchange on a small board over a jump host, and the start of Python
QUIET_S = 180.0  # of the caller, for the board controller: see ``board_controller``
END_S = 120.0  # to put the board back, or to end a program that ignores signals
_TAIL_BYTES = 4096
_LOOK_S = 1.0
_MOST_GREETINGS = 1000  # lines that a shell's own start may print
_MARK = b"mansard: "
_NAME_PYTHON = (
    'name a Python 3.10 or newer that has msgspec in hosts.toml: python = "/path/to/python3"'
)
# What Python runs over there, by its arguments: the name and size of the rooms, a module, and its
# arguments. Pythons that are too old can read it. It comes through standard input, and no byte more
# than it is read: the words of ssh are one line for every shell.
_BOOT = b"""
import os, sys
def say(text): os.write(1, ("mansard: " + text + chr(10)).encode("utf-8", "replace"))
def refuse(text):
    say("refused " + text)
    sys.exit(1)
name, n_bytes, module = sys.argv[1:4]
version = "%s (Python %d.%d)" % ((sys.executable,) + tuple(sys.version_info[:2]))
if sys.version_info < (3, 10): refuse("old " + version)
try: import msgspec
except ImportError: refuse("bare " + version)
try:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    cache = os.path.join(cache, "mansard")
    place = os.path.join(cache, "rooms-" + name)
    if os.path.isdir(place): say("there")
    else:
        import io, shutil, tarfile, tempfile
        os.makedirs(cache, mode=0o700, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix=".rooms-", dir=cache)
        try:
            say("send")
            data = bytearray()
            while len(data) < int(n_bytes):
                more = os.read(0, int(n_bytes) - len(data))
                if not more: sys.exit(1)
                data += more
            tarfile.open(fileobj=io.BytesIO(bytes(data))).extractall(scratch)
            try: os.rename(scratch, place)
            except OSError:
                if not os.path.isdir(place): raise
        finally: shutil.rmtree(scratch, ignore_errors=True)
except OSError as error: refuse("full " + str(error))
try:  # rooms of other versions go after 30 days without a use
    import shutil, time
    os.utime(place, None)
    for other in os.listdir(cache):
        path = os.path.join(cache, other)
        is_rooms = other.startswith(("rooms-", ".rooms-")) and path != place
        if is_rooms and time.time() - os.path.getmtime(path) > 30 * 86400:
            shutil.rmtree(path, ignore_errors=True)
except OSError: pass
sys.path.insert(0, os.path.join(place, "rooms"))
sys.argv[:] = [module] + sys.argv[4:]
say("ready")
import runpy
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


class HostPythonError(ContainerError):
    """The Python of a host cannot run a module of ours; a container there may."""


class HostProcess:
    """Lines to and from a process on a host; a ``Channel`` for its board controller."""

    def __init__(self, host: Host, process: subprocess.Popen[bytes]) -> None:
        self._host, self._process = host, process
        self._lines = LineSplitter(source=host.name, error=ContainerError)
        self._ready: deque[bytes] = deque()
        self._stderr_tail = b""
        self._has_ended = False
        self._writing = threading.Lock()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def send(self, line: bytes) -> None:
        """Send ``line``, its end included; raises OSError where the other end is closed."""
        pipe = self._process.stdin
        with self._writing:
            if pipe is None or pipe.closed:
                raise BrokenPipeError("the connection has ended")
            write_all(pipe.fileno(), line)

    def receive(self, timeout_s: float, check: Callable[[], object] = lambda: None) -> bytes:
        """The next line that is not a heartbeat; empty after the last one.

        Raises TimeoutError after a silence of ``timeout_s``, which a heartbeat ends too. ``check``
        is called about once a second; what it raises ends the wait.
        """
        heard_s = time.monotonic()
        while not self._ready and not self._has_ended:
            check()
            more = self._read(_LOOK_S)
            if more:
                heard_s = time.monotonic()
                self._ready.extend(line for line in self._lines.feed(more) if line)
            elif time.monotonic() - heard_s > timeout_s:
                raise TimeoutError(f"nothing came through ssh for {timeout_s:.0f} s")
        return self._ready.popleft() if self._ready else b""

    def beat(self) -> None:
        """Send a heartbeat; raises OSError."""
        self.send(HEARTBEAT)

    def end(self) -> None:
        """End its input, from any thread: the process cleans up and ends."""
        pipe = self._process.stdin
        if pipe is not None and self._writing.acquire(timeout=_LOOK_S):
            try:
                with contextlib.suppress(OSError):
                    pipe.close()
            finally:
                self._writing.release()

    def wait_for_end(self) -> None:
        """Wait until it has ended, while another thread receives."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)

    def close(self) -> str:
        """End its input and wait until it has ended; returns ``last_words``."""
        self.end()
        end_s = time.monotonic() + END_S
        with contextlib.suppress(OSError, ValueError, ContainerError):
            # Unread output would keep it from ending.
            while not self._has_ended and time.monotonic() < end_s:
                self._read(_LOOK_S)
        end_program(self._process, patience_s=_LOOK_S)
        self._listener.join(_LOOK_S)
        return self.last_words

    @property
    def last_words(self) -> str:
        """The end of its standard error, and of ssh's, in one line."""
        text = masked(self._stderr_tail.decode("utf-8", "replace"))
        return printable(" | ".join(line.strip() for line in text.splitlines() if line.strip()))

    def _read(self, timeout_s: float) -> bytes:
        """What has come within the time; notes the end."""
        pipe = self._process.stdout
        if pipe is None or pipe.closed:
            self._has_ended = True
            return b""
        poll = select.poll()  # not select(): fifty boards come to descriptors from 1024 on
        poll.register(pipe, select.POLLIN)
        if not poll.poll(1000 * timeout_s):
            return b""
        more = os.read(pipe.fileno(), 1 << 16)
        self._has_ended = not more
        return more

    def _listen(self) -> None:
        """Keep the end of what comes on standard error; unread, it would block."""
        if self._process.stderr is not None:
            with contextlib.suppress(OSError, ValueError):
                while more := self._process.stderr.read(_TAIL_BYTES):
                    self._stderr_tail = (self._stderr_tail + more)[-_TAIL_BYTES:]


@contextlib.contextmanager
def host_process(host: Host, module: str, *arguments: str) -> Iterator[HostProcess]:
    """``python -m module`` on ``host``, until the end of the block; then it has ended.

    Raises UsageError for a host without ssh, ContainerError.
    """
    if host.ssh is None:
        raise UsageError(
            "is a container engine of this machine, and programs and servers are measured over ssh",
            where=host.name,
            fix="give user@board; or measure this machine without --host",
        )
    name, rooms = _rooms()
    boot = f"import os; exec(b''.join(os.read(0, 1) for _ in range({len(_BOOT)})))"
    words = (host.python, "-c", boot, name, str(len(rooms)), module, *arguments)
    # In a session of its own: a Ctrl-C must not cut the connection, for the board is put back
    # through it. Its input ends with this process, however that ends.
    process = HostProcess(
        host,
        start_program(
            [*ssh_command(host, ()), f"exec {shlex.join(words)}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            error=ContainerError,
        ),
    )
    try:
        _start(process, host, rooms)
        yield process
    finally:
        process.close()


def _start(process: HostProcess, host: Host, rooms: bytes) -> None:
    """Send what is missing over there, and wait until the module runs."""
    try:
        process.send(_BOOT)
        for _ in range(_MOST_GREETINGS):
            line = process.receive(CONNECT_S)
            if line == _MARK + b"send":
                process.send(rooms)
            elif line == _MARK + b"ready":
                return
            elif line.startswith(_MARK + b"refused "):
                words = line.removeprefix(_MARK + b"refused ").decode("utf-8", "replace")
                raise _refused(words, host)
            elif not line:
                break
        why = ""
    except OSError as error:  # TimeoutError too
        why = str(error)
    last_words = process.close() or why
    if "not found" in last_words or "No such file" in last_words:
        raise HostPythonError(
            f"{host.python} is not there ({last_words})", where=host.name, fix=_NAME_PYTHON
        )
    raise explain_ssh(last_words, host)


def _refused(words: str, host: Host) -> HostPythonError:
    kind, _, rest = words.partition(" ")
    if kind == "full":
        return HostPythonError(
            f"Mansard's modules cannot be written to ~/.cache/mansard: {rest}",
            where=host.name,
            fix="free some space there, or set XDG_CACHE_HOME for the user",
        )
    if kind == "old":
        what = f"{rest} is older than Python 3.10"
        return HostPythonError(what, where=host.name, fix=_NAME_PYTHON)
    install = f"'{host.login} {host.python} -m pip install msgspec'"
    fix = f"{install}, or {_NAME_PYTHON}"
    return HostPythonError(f"{rest} lacks msgspec", where=host.name, fix=fix)


@functools.cache
def _rooms() -> tuple[str, bytes]:
    """The hash and the tar of the rooms that measure."""
    content = io.BytesIO()
    write_tar(content, dict(room_files()), {})
    plain = content.getvalue()
    return file_hash(plain)[:ID_CHARACTERS], gzip.compress(plain, mtime=0)


@contextlib.contextmanager
def host_controller(host: Host) -> Iterator[RemoteController]:
    """The controller of the board ``host``, run by the user who logs in; the board is put back.

    Only root may set the modes of a real board. Raises ContainerError, and what is wrong with it.
    """
    arguments = (*host.board_option, "--quiet-s", f"{QUIET_S:g}")
    with (
        host_process(host, "mansard.device.controller", *arguments) as process,
        remote_controller(process, host.name) as controller,
    ):
        yield controller
