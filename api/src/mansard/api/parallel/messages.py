"""Messages of Dask's workers as data: reading them runs nothing of the sender's.

Results are MessagePack by msgspec. What it has no form for becomes a pair of a mark and its parts:
records and errors of Mansard by the names of their classes, frames as Arrow, arrays as NumPy's
.npy.

Dask's client also unpickles what surrounds them: exceptions and tracebacks of tasks, types of
results, warnings, answers of ``Client.run``. A pickle acts by naming what it calls, and Python
reports each name before it is looked up, as the audit event ``pickle.find_class`` (PEP 578). So one
list of names, the state of a lost task, holds for every way into the client, on all of its threads,
also for ways that later versions of Dask add.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import msgspec

from mansard.core.errors import ClusterError, MansardError

_LARGEST = 1 << 63  # integers of more bits become texts
_ROOM = "mansard."


def encode(value: Any) -> bytes:
    """``value`` as bytes; raises TypeError if its type has no form in messages."""
    return msgspec.msgpack.encode(_pack(value))


def decode(data: Any) -> Any:
    """The value that ``encode`` turned into ``data``; raises ClusterError for other bytes."""
    try:
        return _unpack(msgspec.msgpack.decode(data))
    except MansardError:
        raise
    except Exception as error:  # whatever a class or a format says of wrong parts
        raise ClusterError(
            "a worker sent a result that cannot be read",
            fix="check who runs workers there, and use TLS",
        ) from error


def _pack(value: Any) -> Any:  # noqa: PLR0911 - a form each
    kind = type(value)
    if value is None or kind in {bool, float, str, bytes}:
        return value
    if kind is int:
        return value if -_LARGEST <= value < _LARGEST else ["int", str(value)]
    if isinstance(value, Path):
        return ["path", str(value)]
    name = f"{kind.__module__}:{kind.__qualname__}"
    if isinstance(value, msgspec.Struct) or is_dataclass(value):
        return ["record", name, [_pack(getattr(value, field)) for field in _fields(kind)]]
    if isinstance(value, MansardError):
        return ["error", name, [_pack(value.what), value.where, value.fix]]
    if isinstance(value, tuple) and kind is not tuple:
        return ["named", name, [_pack(item) for item in value]]
    for mark, classes in _COLLECTIONS.items():
        if isinstance(value, classes):
            return [mark, [_pack(item) for item in value]]
    if isinstance(value, Mapping):
        return ["dict", [[_pack(key), _pack(item)] for key, item in value.items()]]
    return _pack_table(value)


_COLLECTIONS: Mapping[str, Any] = MappingProxyType(
    {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
)


def _pack_table(value: Any) -> Any:
    import numpy as np

    from mansard.analytics.data.frames import frame_to_bytes

    if isinstance(value, np.generic):
        value = np.asarray(value)
    stream = io.BytesIO()
    if (frame := frame_to_bytes(value)) is not None:
        return ["frame", frame]
    if isinstance(value, np.ndarray):
        np.save(stream, value, allow_pickle=False)
        return ["array", stream.getvalue()]
    raise TypeError(f"{type(value).__name__} has no form in messages")


def _unpack(value: Any) -> Any:  # noqa: PLR0911 - likewise
    if not isinstance(value, list):
        return value
    mark, *parts = value
    if mark in _COLLECTIONS:
        return _COLLECTIONS[mark](_unpack(item) for item in parts[0])
    if mark == "dict":
        return {_unpack(key): _unpack(item) for key, item in parts[0]}
    if mark == "int":
        return int(parts[0])
    if mark == "path":
        return Path(parts[0])
    if mark in {"record", "error", "named"}:
        return _make(mark, parts[0], [_unpack(part) for part in parts[1]])
    return _unpack_table(mark, parts[0])


def _unpack_table(mark: str, data: bytes) -> Any:
    import numpy as np

    from mansard.analytics.data.frames import frame_of_bytes

    if mark == "frame":
        return frame_of_bytes(data)
    if mark == "array":
        array = np.load(io.BytesIO(data), allow_pickle=False)
        return array if array.ndim else array[()]
    raise ValueError(mark)


def _make(mark: str, name: str, parts: list[Any]) -> Any:
    """An object of a class of Mansard that this process has imported already, and of no other."""
    module, _, path = name.partition(":")
    kind: Any = sys.modules.get(module) if module.startswith(_ROOM) else None
    kind = vars(kind).get(path) if kind is not None else None
    if not isinstance(kind, type):
        raise ValueError(name)
    if mark == "error" and issubclass(kind, MansardError):
        what, where, fix = parts
        return kind(what, where=where, fix=fix)
    if mark == "record" and (issubclass(kind, msgspec.Struct) or is_dataclass(kind)):
        return kind(**dict(zip(_fields(kind), parts, strict=True)))
    if mark == "named" and issubclass(kind, tuple):
        return kind(*parts)
    raise ValueError(name)


def _fields(kind: Any) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    names: tuple[str, ...] = kind.__struct_fields__
    return names


# The type of every result, and what the exception of a lost task consists of.
_NAMES = frozenset(
    {
        ("builtins", "bytes"),
        ("builtins", "int"),
        ("builtins", "tuple"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("distributed.core", "Status"),
        ("distributed.scheduler", "KilledWorker"),
        ("distributed.scheduler", "WorkerState"),
    }
)
_OPEN: list[list[str]] = []  # what each block below that runs has refused


class RefusedPickle(TypeError):  # noqa: N818 - a TypeError: Dask leaves a traceback out for it
    """A peer sent a pickle with this name, which is not on the list."""


@contextlib.contextmanager
def refused_pickles() -> Iterator[list[str]]:
    """While the block runs, Dask unpickles nothing in this process that names anything else.

    Gives the names that were refused so far: Dask stops to listen after some of them, and says
    nothing. A worker of Dask in this very process is affected too, unpickling outside of Dask not.
    """
    _install_check()
    names: list[str] = []
    _OPEN.append(names)
    try:
        yield names
    finally:
        _OPEN[:] = [other for other in _OPEN if other is not names]


@cache
def _install_check() -> None:
    """Once in a process: Python has no way to remove such a function."""
    sys.addaudithook(_check)


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "pickle.find_class" or not _OPEN:
        return
    if arguments not in _NAMES and _is_within_dask(sys._getframe(1)):
        name = ".".join(map(str, arguments))
        for names in _OPEN:
            names.append(name)
        raise RefusedPickle(name)


def _is_within_dask(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "distributed":
            return True
        frame = frame.f_back
    return False
