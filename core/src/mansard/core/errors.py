"""Every error Mansard raises on purpose.

::

    MansardError                 exit code 1
     ├── UsageError              exit code 2: the command line asks for what cannot be
     ├── InputError              a file handed to us is not what it should be
     │    ├── SchemaError        a record of another version, or with an unknown field
     │    └── ModelError         an ONNX model that is broken, unknown or underspecified
     ├── StorageError            the disk is full, read-only, or used by another run
     ├── DeviceError             a clock, meter or mode of this machine does not answer
     │    ├── RebootRequired     a power mode that holds only after the board is started anew
     │    └── ControllerLost     the board's mode is no longer held
     ├── ContainerError          the container engine, an image or a container fails us
     ├── MissingLibrary          a library of an extra that is not installed
     ├── ClusterError            a scheduler of Dask or its workers fail us
     └── MeasurementError        a measurement could not be made at all
          ├── TransientError     and may well succeed later
          └── ProgramFailed      the program that was measured failed, with its own exit code

Libraries raise these and never print or exit; only ``cli`` catches them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeVar

from mansard.core.text import printable

RESUMES = "finished work is kept: the same command resumes"  # how to go on after an error


class MansardError(Exception):
    """One clear line: what happened, where, and what to do about it.

    All three parts may quote hostile input (a node name, a path), so control
    characters are escaped and each part is kept to a readable length.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what = printable(what)
        self.where = printable(where) if where is not None else None
        self.fix = printable(fix) if fix is not None else None
        super().__init__(self._line())

    def _line(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}; {self.fix}" if self.fix else head


_Kind = TypeVar("_Kind", bound=MansardError)


def moved(error: _Kind, *, where: str | None, fix: str | None) -> _Kind:
    """The same error, exit code included, with another place and remedy."""
    copy = type(error)(error.what, where=where, fix=fix)
    copy.exit_code = error.exit_code
    return copy


class UsageError(MansardError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class InputError(MansardError):
    """A file handed to us is not what it should be."""


class SchemaError(InputError):
    """A record of another version, or with a field this version does not know."""


class ModelError(InputError):
    """An ONNX model that is broken, has unknown operators, or unknown shapes."""


class StorageError(MansardError):
    """The disk is full, read-only, or in use by another run."""


class DeviceError(MansardError):
    """A clock, meter or power mode of this machine does not answer."""


class DeniedError(DeviceError):
    """This user may not change the machine: nothing was touched."""


class BusyError(DeviceError):
    """Another sweep has the machine; it may be free later."""


class RebootRequired(DeviceError):  # noqa: N818 - it says what is required, not what failed
    """A power mode that holds only after the board is started anew."""


class ControllerLost(DeviceError):  # noqa: N818 - it says what happened
    """The controller of a board has ended: the board's mode is no longer held."""


class MissingLibrary(MansardError):  # noqa: N818 - it says what is missing
    """A library that is not installed; the remedy has the command that adds it."""


class ContainerError(MansardError):
    """The container engine, an image or a container does not do what it should."""


class ClusterError(MansardError):
    """A scheduler of Dask, or a worker of it, does not do what it should."""


class MeasurementError(MansardError):
    """A measurement could not be made at all."""


class TransientError(MeasurementError):
    """It could not be made now, as for lack of memory: later it may succeed."""


class ProgramFailed(MeasurementError):  # noqa: N818 - it says what happened
    """The program failed; its exit code becomes that of the command."""

    def __init__(
        self, what: str, exit_code: int = 1, *, where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        self.exit_code = exit_code


@contextlib.contextmanager
def reported(error: type[MansardError], what: str, *, where: str, fix: str) -> Iterator[None]:
    """Turns an operating-system error of its block into ``error``: ``what``, and the reason."""
    try:
        yield
    except OSError as failure:
        reason = (failure.strerror or str(failure)).lower()
        raise error(f"{what}: {reason}", where=where, fix=fix) from failure
