"""The version that is played, its classes and its enumerations.

STAND_IN_TENSORRT names the version; ``tensorrt`` must be imported anew to play another one.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from typing import Any

from tensorrt import _symbols

VERSION = os.environ.get("STAND_IN_TENSORRT", _symbols.VERSIONS[-1])
MAJOR = int(VERSION.partition(".")[0])
ENUMS: dict[str, Any] = {}
for _name, _values in _symbols.enums(VERSION).items():
    ENUMS[_name] = enum.IntEnum(_name, {value: n for n, value in enumerate(_values)})
_MEMBERS = _symbols.members(VERSION)
CLASSES: dict[str, Any] = {}


def published(impl: type) -> type:
    """``impl`` with the members that this version has and no others.

    A published member that ``impl`` lacks raises NotImplementedError.
    """
    name = impl.__name__
    kept = {
        key: value
        for key, value in vars(impl).items()
        if key.startswith("_") and key not in {"__dict__", "__weakref__"}
    }
    for member in _MEMBERS[name]:
        kept[member] = vars(impl).get(member) or _missing(name, member)
    kept["__setattr__"] = _set
    made = type(name, tuple(base for base in impl.__bases__), kept)
    CLASSES[name] = made
    return made


def _missing(name: str, member: str) -> property:
    def get(_: Any) -> Any:
        raise NotImplementedError(f"tensorrt.{name}.{member} is not played by the stand-in")

    return property(get)


def _set(self: Any, name: str, value: Any) -> None:
    """As bindings do: only what the class has can be set."""
    if not name.startswith("_") and name not in vars(type(self)):
        raise AttributeError(f"'tensorrt.{type(self).__name__}' object has no attribute {name!r}")
    object.__setattr__(self, name, value)


def settable(name: str, initial: Any) -> property:
    """A property that keeps what is set."""
    key = f"_{name}"
    return property(
        lambda self: vars(self).get(key, initial),
        lambda self, value: object.__setattr__(self, key, value),
    )


class _Initialised(type):
    """Bindings refuse an object whose class does not call its base's ``__init__``."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        made = super().__call__(*arguments, **named)
        if not getattr(made, "_is_initialised", False):
            raise TypeError(f"{cls.__name__}.__init__() must be called when overriding __init__")
        return made


def base(name: str, methods: Sequence[str] = ()) -> Any:
    """A class that a program derives its own from, with ``methods`` that it has to define."""

    def init(self: Any) -> None:
        self._is_initialised = True

    members: dict[str, Any] = {"__init__": init}
    for method in methods:
        members[method] = _abstract(name, method)
    return _Initialised(name, (), members)


def _abstract(name: str, method: str) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise RuntimeError(f'Tried to call pure virtual function "{name}::{method}"')

    return call


SEVERITIES = enum.IntEnum("Severity", "INTERNAL_ERROR ERROR WARNING INFO VERBOSE", start=0)
ILogger = base("ILogger", ["log"])
ILogger.Severity = SEVERITIES
for _severity in SEVERITIES:
    setattr(ILogger, _severity.name, _severity)


class Logger(ILogger):
    """Prints what is at least as severe as ``min_severity``."""

    def __init__(self, min_severity: int = SEVERITIES.WARNING) -> None:
        super().__init__()
        self.min_severity = min_severity

    def log(self, severity: int, msg: str) -> None:
        if severity <= self.min_severity:
            print(f"[TRT] [{SEVERITIES(severity).name[0]}] {msg}")


class Dims(tuple[int, ...]):
    """A shape."""

    __slots__ = ()
    MAX_DIMS = 8


class IHostMemory(bytes):
    """A piece of memory of the host's."""

    @property
    def nbytes(self) -> int:
        return len(self)

    @property
    def dtype(self) -> Any:
        return ENUMS["DataType"].INT8
