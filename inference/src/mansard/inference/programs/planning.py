"""From a command to a trial: what it is called, and a hash of the files that it is made of."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from mansard.core.errors import UsageError
from mansard.core.hashing import ID_CHARACTERS, file_hash, stream_hash
from mansard.core.text import is_utf8, printable
from mansard.inference.programs.execution import cannot_run
from mansard.inference.programs.plan import ProgramTrial

_LONGEST_NAME = 60
_HASHED_BYTES = 64 << 20  # of a larger file its size, its first and its last part
_PART_BYTES = 1 << 20


def make_program_trial(
    command: Sequence[str], name: str | None = None, metric: str | None = None
) -> ProgramTrial:
    """What is to be run, in the present folder; by default it is called after its command.

    Raises ProgramFailed where there is no such program, UsageError.
    """
    if not command or not command[0]:
        raise UsageError("no command is given", fix="mansard measure -- python3 my_program.py")
    folder = _present_folder()
    for word in (*command, folder):
        if "\0" in word or not is_utf8(word):
            raise UsageError(
                f"{word!r} is no text in UTF-8, and could not be kept",
                fix="rename it, or call it from a script",
            )
    _check_program(command[0])
    return ProgramTrial(
        workload=printable(name or _short_name(command)),
        command=tuple(command),
        folder=folder,
        program_hash=hash_program(command),
        metric_pattern=metric,
        unknown={} if metric is not None else {"metric_pattern": "none was asked for"},
    )


def hash_program(command: Sequence[str]) -> str:
    """Of the program's file and of the files among its arguments, as they are now."""
    found = hashlib.sha256()
    for path in (shutil.which(command[0]), *command[1:]):
        if path is not None and os.path.isfile(path):  # noqa: PTH113 - a long word is no error
            found.update(_digest(Path(path)).encode())
    return found.hexdigest()[:ID_CHARACTERS]


def _check_program(name: str) -> None:
    """Raises ProgramFailed, with a shell's exit code, where ``name`` cannot be run."""
    if shutil.which(name) is not None:
        return
    is_there = os.path.lexists(name) and "/" in name
    raise cannot_run(name, errno.EACCES if is_there else errno.ENOENT)


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


def _digest(path: Path) -> str:
    """A file by its content; one that may not be read by its size."""
    start = b""
    with contextlib.suppress(OSError):
        size = path.stat().st_size
        start = str(size).encode()
        with path.open("rb") as file:
            if size > _HASHED_BYTES:
                start += file.read(_PART_BYTES)
                file.seek(-_PART_BYTES, os.SEEK_END)
            return stream_hash(file, start)
    return file_hash(start)
