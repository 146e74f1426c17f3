"""The arguments of a function of the façade, compared with the types of its parameters.

The command line parses its options; a program passes anything. Without this check a number in the
place of a folder ends as an AttributeError ten frames down, or after the measurement. One value is
accepted for a list, and text for a path, see ``inputs``.
"""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass, replace
from functools import cache, wraps
from importlib import import_module
from inspect import get_annotations, getsource, isgenerator, signature
from itertools import takewhile
from numbers import Integral, Real
from pathlib import Path
from textwrap import dedent
from types import NoneType, UnionType
from typing import IO, Annotated, Any, ClassVar, Literal, Union, cast, get_args, get_origin

import msgspec

from mansard.api.inputs import ModelFiles, OnnxModel, is_onnx_model
from mansard.api.result import as_result
from mansard.core.errors import UsageError
from mansard.core.extras import missing_library
from mansard.core.records.base import Record

_QUANTITIES = ("_s", "_j", "_w", "_hz", "_bytes", "_flop")  # units that stand in names
_TOO_LARGE = 1 << 63
_COLLECTIONS = frozenset({list, tuple, set, frozenset, Sequence, Collection, Set})
_TEXTS = (str, bytes, bytearray)
_OF_BOARDS = "mansard.device"  # what a board says may be below 0


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which raises UsageError for an argument of another type than it says.

    It returns tuples as ``Records``, and raises MissingLibrary where it needs a library that is
    not installed. A generator function checks its arguments when it is called.
    """
    parameters = signature(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        hints = hints_of(function)
        bound = parameters.bind(*args, **kwargs)
        with ExitStack() as stack:
            stack.enter_context(_naming_missing_library())
            files = ModelFiles(stack)
            for name, value in bound.arguments.items():
                bound.arguments[name] = _fitted(value, hints[name], files)
            for name, value in bound.arguments.items():
                _check_type(value, hints[name], name, function.__name__)
            for name, value in bound.arguments.items():
                _check_parts(value, hints[name], name, function.__name__)
            result = function(*bound.args, **bound.kwargs)
            if isgenerator(result):
                return _within(stack.pop_all(), result)
            return as_result(result)

    return call


def _within(stack: ExitStack, items: Iterator[Any]) -> Iterator[Any]:
    """``items``; ``stack`` is closed after the last one."""
    with stack:
        yield from items


@contextmanager
def _naming_missing_library() -> Iterator[None]:
    """Raises MissingLibrary for a library of an extra that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if missing := missing_library(error):
            raise missing from error
        raise


def _fitted(value: Any, hint: Any, files: ModelFiles) -> Any:
    """``value`` in the form of ``hint``; as it is where it has none, which the checks say."""
    members = _members(hint)
    if is_onnx_model(value) and any(_takes_path(member) for member in members):
        value = files.write(value)
    fitting = next((member for member in members if _is_of(value, member)), None)
    if fitting is not None:
        return _fitted_parts(value, fitting, files)
    if isinstance(value, str) and Path in members:
        return Path(value)
    if isinstance(value, Path) and str in members:
        return str(value)
    if isinstance(value, Collection) and not isinstance(value, str):
        return value
    for element in (arguments[0] for member in members if (arguments := _list_arguments(member))):
        one = _fitted(value, element, files)
        if any(_is_of(one, member) for member in _members(element)):
            return (one,)
    return value


def _takes_path(hint: Any) -> bool:
    """Whether a file's path is of the type ``hint``, or one of a list's."""
    arguments = _list_arguments(hint)
    return hint in (str, Path) or any(map(_takes_path, _members(arguments[0]) if arguments else ()))


def _list_arguments(hint: Any) -> tuple[Any, ...]:
    """The type of the elements of a list of any length; empty for all other types."""
    arguments = get_args(hint)
    is_list = get_origin(hint) in _COLLECTIONS and (len(arguments) == 1 or Ellipsis in arguments)
    return arguments if is_list else ()


def _fitted_parts(value: Any, hint: Any, files: ModelFiles) -> Any:
    """Likewise for the elements of a list, and for the fields of a request."""
    if elements := _list_arguments(hint):
        parts = [_fitted(part, elements[0], files) for part in value]
        changed = any(new is not old for new, old in zip(parts, value, strict=True))
        return tuple(parts) if changed else value
    if not _is_request(type(value)):
        return value
    fields = {
        name: new
        for name, field_hint in hints_of(cast(Any, type(value))).items()
        if hasattr(value, name)
        and (new := _fitted(old := getattr(value, name), field_hint, files)) is not old
    }
    if not fields:
        return value
    if hasattr(value, "__struct_fields__"):
        return msgspec.structs.replace(value, **fields)
    return replace(value, **fields)


def _check_type(value: Any, hint: Any, name: str, where: str) -> None:
    """Raise UsageError where ``value`` is not of the type ``hint``; ``name``: how it is called."""
    if not any(_is_of(value, member) for member in _members(hint)):
        raise UsageError(f"{name} is {_shown(value)}", where=where, fix=f"give {_words(hint)}")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_number(value, name, where)
    if isinstance(value, (str, Path)) and "\0" in str(value):
        raise UsageError(f"{name} holds a NUL", where=where)


def _check_parts(value: Any, hint: Any, name: str, where: str) -> None:
    """Likewise for what ``value``, which is of the type ``hint``, holds."""
    fitting = next(member for member in _members(hint) if _is_of(value, member))
    for part, part_hint, part_name in _parts(value, fitting, name):
        _check_type(part, part_hint, part_name, where)
        _check_parts(part, part_hint, part_name, where)


def _members(hint: Any) -> tuple[Any, ...]:
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)


def _check_number(value: float, name: str, where: str) -> None:
    last = name.rpartition(".")[2]
    is_quantity = last.endswith(_QUANTITIES) or last.startswith("n_")
    if isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise UsageError(f"{name} is an integer of more than 64 bits", where=where)
    if not math.isfinite(value) or (is_quantity and value < 0):
        least = ", not below 0" if is_quantity else ""
        raise UsageError(f"{name} is {value}", where=where, fix=f"give a finite number{least}")


def _is_of(value: Any, hint: Any) -> bool:  # noqa: C901, PLR0911 - a form each
    origin = get_origin(hint) or hint
    if origin in {None, NoneType}:
        return value is None
    if origin is Literal:
        return any(value is literal or value == literal for literal in get_args(hint))
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
        return all(hasattr(value, member) for member in vars(origin) if not member.startswith("_"))
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if origin in {Iterable, Iterator}:
        return isinstance(value, Iterable) and not isinstance(value, (*_TEXTS, Mapping))
    if origin in _COLLECTIONS:  # a list is taken for a tuple
        return isinstance(value, Collection) and not isinstance(value, (*_TEXTS, Mapping))
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
    elif _is_request(kind):
        for field, field_hint in hints_of(cast(Any, kind)).items():
            if hasattr(value, field):
                yield getattr(value, field), field_hint, f"{name}.{field}"


def _is_request(kind: type) -> bool:
    """Whether a program makes records of this type: all others come out of Mansard."""
    has_fields = is_dataclass(kind) or hasattr(kind, "__struct_fields__")
    return (
        has_fields and not issubclass(kind, Record) and not kind.__module__.startswith(_OF_BOARDS)
    )


@cache
def hints_of(owner: Any) -> dict[str, Any]:
    """The types of the parameters of a function, or of the fields of a record."""
    classes = reversed(owner.__mro__) if isinstance(owner, type) else (owner,)
    hints: dict[str, Any] = {}
    for cls in classes:
        for name, hint in get_annotations(cls).items():
            evaluated = _evaluated(hint, cls.__module__)
            if get_origin(evaluated) is not ClassVar:  # not a field
                hints[name] = evaluated
    return hints


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
    """What ``module`` imports and defines for its annotations alone."""
    names: dict[str, Any] = {}
    # The block alone: to parse the whole file takes as long as to score a small network.
    _, _, rest = getsource(sys.modules[module]).partition("\nif TYPE_CHECKING:\n")
    block = takewhile(lambda line: line.startswith((" ", "\n")), rest.splitlines(keepends=True))
    for line in ast.parse(dedent("".join(block))).body:
        if isinstance(line, ast.Import):
            names |= {alias.asname or alias.name: _later(alias.name) for alias in line.names}
        elif isinstance(line, ast.ImportFrom) and line.module:
            for alias in line.names:
                names[alias.asname or alias.name] = _imported(line.module, alias.name)
        elif isinstance(line, ast.AnnAssign) and line.value is not None:
            known = {**vars(sys.modules[module]), **names}
            names[ast.unparse(line.target)] = eval(ast.unparse(line.value), known)  # noqa: S307
    return names


def _imported(module: str, name: str) -> Any:
    if not module.startswith("mansard."):
        return _later(f"{module}.{name}")
    try:
        members = vars(import_module(module))
    except ModuleNotFoundError:  # it needs a library that is not installed
        return Any
    return members[name] if name in members else _typing_names(module).get(name, Any)


class _Later(type):
    """The type of a class of a library, ``path``, that need not be imported to be compared with."""

    path: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _later(f"{cls.path}.{name}")

    def __getitem__(cls, _: object) -> Any:
        return cls

    def __instancecheck__(cls, value: object) -> bool:
        module, _, name = cls.path.rpartition(".")
        kind = getattr(sys.modules.get(module), name, None)
        kind = get_origin(kind) or kind
        return isinstance(value, kind) if isinstance(kind, type) else kind is not None


@cache
def _later(path: str) -> Any:
    return _Later(path, (), {"path": path})


def _words(hint: Any) -> str:  # noqa: PLR0911 - likewise
    origin = get_origin(hint) or hint
    if origin in {Union, UnionType}:
        members = get_args(hint)
        lists = [one for one in members if _list_arguments(one)]
        if lists and set(_members(get_args(lists[0])[0])) <= set(members):
            rest = [_words(one) for one in members if one not in (*lists, NoneType)]
            none = ["None"] if NoneType in members else []
            return " or ".join([*rest, "a list of these", *none])
        return " or ".join(map(_words, members))
    if origin in {None, NoneType}:
        return "None"
    if origin is Literal:
        return ", ".join(map(repr, get_args(hint)))
    if origin is Path:
        return "a pathlib.Path"
    if origin is OnnxModel:
        return "an onnx.ModelProto"
    arguments = [argument for argument in get_args(hint) if argument is not Ellipsis]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dictionary"
    if isinstance(origin, type) and issubclass(origin, Iterable) and origin not in _TEXTS:
        return f"a list of {_words(arguments[0])}" if arguments else "a list"
    return getattr(origin, "__name__", str(origin))


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return "None" if value is None else f"{kind} {value!r}" if len(repr(value)) < 60 else kind
