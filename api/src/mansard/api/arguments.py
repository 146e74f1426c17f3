"""What a function of this façade is given, held against the types of its parameters.

The command line parses its options; a program gives what it likes. Without this a text in the place
of a list of files ends as an AttributeError ten frames further down, or after the measurement.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from functools import cache, wraps
from importlib import import_module
from inspect import get_annotations, getsource, signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Annotated, Any, Literal, Union, cast, get_args, get_origin

from mansard.core.errors import UsageError

_QUANTITIES = ("_s", "_j", "_w", "_hz", "_bytes", "_flop")  # units that stand in names
_TEXTS = (str, bytes, bytearray)
_RECORDS = "mansard.core.records"  # of files: msgspec has compared their types already


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which raises UsageError for an argument of another type than it says."""
    parameters = signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        hints = _hints(function)
        for name, value in parameters.bind(*args, **kwargs).arguments.items():
            _check(value, hints.get(name, Any), name, function.__name__)
        return function(*args, **kwargs)

    return call


def _check(value: Any, hint: Any, name: str, where: str) -> None:
    """Raise UsageError where ``value`` is not of the type ``hint``; ``name``: how it is called."""
    origin = get_origin(hint)
    if origin is Annotated:
        hint = get_args(hint)[0]
        origin = get_origin(hint)
    members = get_args(hint) if origin in {Union, UnionType} else (hint,)
    fitting = [member for member in members if _is_of(value, member)]
    if not fitting:
        raise UsageError(f"{name} is {_shown(value)}", where=where, fix=f"give {_words(hint)}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, name, where)
    for inner, part_hint, part_name in _parts(value, fitting[0], name):
        _check(inner, part_hint, part_name, where)


def _check_number(value: float, name: str, where: str) -> None:
    last = name.rpartition(".")[2]
    is_quantity = last.endswith(_QUANTITIES) or last.startswith("n_")
    if is_quantity and not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{name} is {value}", where=where, fix="give a finite number, not below 0")
    if math.isnan(value):
        raise UsageError(f"{name} is no number (NaN)", where=where)


def _is_of(value: Any, hint: Any) -> bool:  # noqa: PLR0911 - a form each
    origin = get_origin(hint) or hint
    if origin in {None, NoneType}:
        return value is None
    if origin is Literal:
        return any(value is each or value == each for each in get_args(hint))
    if origin is IO:
        return hasattr(value, "write") or hasattr(value, "read")
    if origin in {Any, object} or not isinstance(origin, type):  # or a type variable
        return True
    if origin in {int, float}:
        return isinstance(value, Integral if origin is int else Real) and not isinstance(
            value, bool
        )
    if issubclass(origin, _TEXTS):
        return isinstance(value, origin)
    if getattr(origin, "_is_protocol", False) and origin.__module__.startswith("mansard."):
        return all(hasattr(value, each) for each in vars(origin) if not each.startswith("_"))
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if issubclass(origin, Collection) or origin in {Iterable, Iterator}:
        kind = Iterable if origin in {Iterable, Iterator} else Collection
        return isinstance(value, kind) and not isinstance(value, (*_TEXTS, Mapping))
    return isinstance(value, origin)


def _parts(value: Any, hint: Any, name: str) -> Iterator[tuple[Any, Any, str]]:
    """What ``value`` holds, with its type and how it is called."""
    arguments = get_args(hint)
    kind = type(value)
    if isinstance(value, Mapping) and len(arguments) == 2:
        for key, item in value.items():
            yield key, arguments[0], f"a key of {name}"
            yield item, arguments[1], f"{name}[{key!r}]"
    elif isinstance(value, Collection) and not isinstance(value, _TEXTS) and arguments:
        is_pair = get_origin(hint) is tuple and Ellipsis not in arguments
        if is_pair and len(value) != len(arguments):
            raise UsageError(f"{name} has {len(value)} parts", fix=f"give {len(arguments)}")
        hints = arguments if is_pair else (arguments[0],) * len(value)
        for at, (item, item_hint) in enumerate(zip(value, hints, strict=True)):
            yield item, item_hint, f"{name}[{at}]"
    elif (is_dataclass(kind) or hasattr(kind, "__struct_fields__")) and not (
        kind.__module__.startswith(_RECORDS)
    ):
        for field, field_hint in _hints(cast(Any, kind)).items():
            if hasattr(value, field):
                yield getattr(value, field), field_hint, f"{name}.{field}"


@cache
def _hints(owner: Any) -> dict[str, Any]:
    """The types of the parameters of a function, or of the fields of a record."""
    classes = reversed(owner.__mro__) if isinstance(owner, type) else (owner,)
    found: dict[str, Any] = {}
    for each in classes:
        for name, hint in get_annotations(each).items():
            found[name] = _evaluated(hint, each.__module__)
    return found


def _evaluated(hint: Any, module: str) -> Any:
    names = vars(sys.modules[module])
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, dict(names))  # noqa: S307 - an annotation of our own
    except NameError:
        return eval(hint, {**names, **_typing_names(module)})  # noqa: S307


@cache
def _typing_names(module: str) -> dict[str, Any]:
    """What ``module`` imports for its annotations alone.

    Nothing is an instance of a class of another library that is not imported yet.
    """
    found: dict[str, Any] = {}
    tree = ast.parse(getsource(sys.modules[module]))
    for block in (node for node in tree.body if isinstance(node, ast.If)):
        for line in block.body:
            source = line.module or "" if isinstance(line, ast.ImportFrom) else ""
            is_own = source.startswith("mansard.")
            loaded = import_module(source) if is_own else sys.modules.get(source)
            for alias in line.names if isinstance(line, (ast.Import, ast.ImportFrom)) else ():
                whole = sys.modules.get(alias.name, _NotImported)
                part = getattr(loaded, alias.name, _NotImported) if source else whole
                found[alias.asname or alias.name] = part
    return found


class _NotImported:
    """Stands for each class of a library that is not imported."""

    def __class_getitem__(cls, _: object) -> type:
        return cls


def _words(hint: Any) -> str:  # noqa: PLR0911 - likewise
    origin = get_origin(hint) or hint
    if origin in {Union, UnionType}:
        return " or ".join(map(_words, get_args(hint)))
    if origin in {None, NoneType}:
        return "None"
    if origin is Literal:
        return ", ".join(map(repr, get_args(hint)))
    if origin is Path:
        return "a pathlib.Path"
    arguments = [each for each in get_args(hint) if each is not Ellipsis]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dictionary"
    if isinstance(origin, type) and issubclass(origin, Iterable) and origin not in _TEXTS:
        return f"a list of {_words(arguments[0])}" if arguments else "a list"
    return getattr(origin, "__name__", str(origin))


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return "None" if value is None else f"{kind} {value!r}" if len(repr(value)) < 60 else kind
