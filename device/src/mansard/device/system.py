"""The machine's own files and tools, under a root that tests can replace by a folder.

Every reader and writer of ``/proc`` and ``/sys`` goes through here, and so does every
tool of the board: with another root the same code works on a simulated board.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from mansard.core.errors import DeviceError, InputError, UsageError
from mansard.core.processes.programs import Finished, run_program
from mansard.core.storage.files import check_descriptors, check_spare_descriptor

SYSTEM_ROOT = Path("/")
_MAX_BYTES = 16 << 20  # no file of /proc, /sys or /etc is longer; a junk one is cut
# A pipe in a file's place would stop us for ever. Nothing changes for files of the kernel.
_NO_WAITING = os.O_NONBLOCK | os.O_NOCTTY
_MAX_DIGITS = 19  # of a 64-bit integer, its sign included
_MAX_LIST_CHARACTERS = 1 << 16
_NO_CPU = re.compile(r"[0-9]{5}")  # a Linux kernel can be built for 8192 CPUs at most
_TOOL_FOLDERS = ("usr/sbin", "usr/bin", "usr/local/bin", "sbin", "bin")


def board_root(board: Path | None) -> Path:
    """The root folder of ``board``, this machine's by default; raises UsageError."""
    root = SYSTEM_ROOT if board is None else board
    if not root.is_dir():
        raise UsageError(f"{str(root)!r} is not a folder", fix="give the root folder of a board")
    return root


def below(root: Path, path: str) -> Path:
    """Where the board's absolute ``path`` lies under ``root``; raises InputError.

    Only paths under /sys without ".." are taken: a configuration file must not lead a
    privileged program to other files, and /proc has ways out.
    """
    parts = PurePosixPath(path).parts
    if len(parts) < 3 or parts[:2] != ("/", "sys") or ".." in parts or "\0" in path:
        raise InputError("is not a path below /sys", where=path)
    return root.joinpath(*parts[1:])


def write_text(path: Path, text: str) -> None:
    """Write a setting into a system file; raises DeviceError that says what would allow it.

    The file is never created: one that is missing is a setting this kernel does not have.
    """
    try:
        # As "echo value > file" does, but for creating it.
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC | _NO_WAITING)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise DeviceError(
            f"cannot write {text!r}: {(error.strerror or str(error)).lower()}",
            where=str(path),
            fix=_remedy(error),
        ) from error


def _remedy(error: OSError) -> str:
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return "run as root (sudo), on the board itself rather than in a container"
    if error.errno == errno.ENOENT:
        return "this kernel has no such setting, or the core it belongs to is off"
    if error.errno in {errno.EINVAL, errno.ERANGE}:
        return "the kernel refuses this value"
    if error.errno in {errno.EBUSY, errno.ENODEV}:
        return "the core or device is off or in use; some settings change only before its first use"
    return "look at the kernel's messages with dmesg"


def find_tool(root: Path, name: str) -> Path | None:
    """The board's own ``name`` (nvpmodel, tegrastats, jetson_clocks); None if it has none."""
    for folder in _TOOL_FOLDERS:
        path = root / folder / name
        if os.access(path, os.X_OK) and path.is_file():
            return path
    return None


# Tools that did not answer, by path: how long they were waited for, and when the last wait ended.
_HUNG_S: dict[str, tuple[float, float]] = {}
_REMEMBERED_S = 60.0


def patience_s(tool: str, wanted_s: float, hung_s: Mapping[str, float]) -> float:
    """The timeout for ``tool``: ``wanted_s``, or less after other tools have hung.

    A call takes two thirds of what is left of 30 s, but at least 4 s; 1 s if the same tool hung
    before. So two tools that hang at every call cost 34 s and 1 s a call: they end, and the machine
    is put back, within a minute.
    """
    left_s = 30.0 - sum(hung_s.values())
    return min(wanted_s, max(left_s * 2 / 3, 1.0 if tool in hung_s else 4.0))


def run_tool(command: Sequence[str | Path], *, answer: str = "", timeout_s: float = 30) -> Finished:
    """Run a tool of the board to its end, ``answer`` on its stdin; raises DeviceError.

    Its streams are merged. After tools have hung it gets less than ``timeout_s``: ``patience_s``.
    """
    tool, started_s = str(command[0]), time.monotonic()
    hung_s = {name: s for name, (s, at_s) in _HUNG_S.items() if started_s - at_s < _REMEMBERED_S}
    limit_s = patience_s(tool, timeout_s, hung_s)
    try:
        done = run_program(
            command, timeout_s=limit_s, answer=answer.encode(), is_merged=True, error=DeviceError
        )
    except DeviceError:
        ended_s = time.monotonic()
        if ended_s - started_s >= limit_s:
            _HUNG_S[tool] = hung_s.get(tool, 0.0) + ended_s - started_s, ended_s
        raise
    _HUNG_S.pop(tool, None)
    return done


def read_text(path: Path) -> str | None:
    """The stripped content of a small system file, or None where it cannot be read.

    Raises DeviceError where this process has no descriptor left: that is no fact about the file.
    """
    try:
        content = read_start(path, _MAX_BYTES)
    except OSError as error:
        check_descriptors(error, path)
        return None
    return content.decode("utf-8", "replace").strip("\0\n\t ")


def read_head(path: Path, n_characters: int) -> str:
    """The first characters of a file; empty if it cannot be read."""
    return (read_text(path) or "")[:n_characters]


def read_start(path: Path, n_bytes: int) -> bytes:
    """The first bytes of a file, never waiting for more of them; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | _NO_WAITING)
    try:
        content = b""
        while len(content) < n_bytes and (more := os.read(handle, n_bytes - len(content))):
            content += more
        return content
    finally:
        os.close(handle)


def is_there(path: Path) -> bool:
    """Whether ``path`` exists; False also without permission to look."""
    try:
        path.stat()
    except (OSError, ValueError):  # ValueError: a path that is none
        return False
    return True


def glob(folder: Path, pattern: str) -> list[Path]:
    """The paths in ``folder`` that match ``pattern``, sorted; empty without permission to look."""
    try:
        paths = sorted(folder.glob(pattern))
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead to themselves
        check_descriptors(error, folder)
        return []
    if not paths:
        check_spare_descriptor(folder)
    return paths


def find_paths(root: Path, pattern: str) -> tuple[str, ...]:
    """The board's absolute paths that match a glob below the root, cpu2 before cpu10."""
    paths = ("/" + path.relative_to(root).as_posix() for path in glob(root, pattern.lstrip("/")))
    return tuple(sorted(paths, key=_natural))


def _natural(path: str) -> list[tuple[str, int]]:
    words = re.findall(r"([^0-9]*)([0-9]{0,18})", path)
    return [(word, int(number or -1)) for word, number in words]


def exists(root: Path, path: str) -> bool:
    """Whether the board's ``path`` is a file there."""
    try:
        return below(root, path).is_file()
    except (OSError, InputError):
        return False


def follow_links(path: Path) -> Path:
    """The target of ``path``; a link to itself is returned as it is, not an error."""
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for such a link


def read_int(path: Path) -> int | None:
    """The integer that a system file holds, or None where it holds none."""
    text = read_text(path)
    try:
        return int(text) if text is not None and len(text) <= _MAX_DIGITS else None
    except ValueError:
        return None


def why_unreadable(path: Path) -> str:
    """The system's reason why ``path`` cannot be read, in words."""
    try:
        read_start(path, 1)
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return f"{path}: holds nothing that can be used"


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """CPU numbers from the kernel's list format: ``0-2,5`` is 0, 1, 2, 5.

    Source: "List format" in the Linux man page cpuset(7). Raises ValueError, also for
    numbers that no CPU has: a range up to them would fill the memory.
    """
    if len(text) > _MAX_LIST_CHARACTERS or _NO_CPU.search(text):
        raise ValueError("no list of CPUs")
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return tuple(cpus)


def usable_cpus() -> tuple[int, ...]:
    """The logical CPUs that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))
