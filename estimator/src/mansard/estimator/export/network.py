"""A network as it was built, with the inputs to trace it with."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from typing import Any, Literal, NoReturn

import msgspec

from mansard.core.errors import MansardError, ModelError, UsageError


class Input(msgspec.Struct, frozen=True):
    """One argument of ``forward``, and what to fill it with.

    Integers are drawn from ``0 … high − 1``; booleans and masks are ones.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    fill: Literal["random", "ones"] = "random"
    high: int = 2  # every table has two rows
    symbols: Mapping[int, str] = {}  # axes that are symbols by default, beside the batch


class Network(msgspec.Struct, frozen=True):
    """``module`` is a torch.nn.Module in evaluation mode on the CPU."""

    name: str
    module: Any
    inputs: tuple[Input, ...]
    notes: tuple[str, ...] = ()


@contextmanager
def foreign_code(what: str) -> Iterator[None]:
    """Whatever the user's code or a library raises becomes one ModelError; what it prints
    goes to stderr, because stdout is for data."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except MansardError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{what} raised {described(error)}") from error


def described(error: BaseException) -> str:
    """Type and first line of the error that began a chain of them, as it is told to a person."""
    deepest = error
    for _ in range(20):
        cause = deepest.__cause__
        if cause is None:
            break
        deepest = cause
    lines = [line.strip() for line in str(deepest).splitlines() if line.strip()]
    return f"{type(deepest).__name__}: {lines[0][:300]}" if lines else type(deepest).__name__


def forward_parameters(module: Any) -> tuple[dict[str, inspect.Parameter], bool]:
    """The named arguments of ``forward``, and whether it takes others by keyword."""
    parameters = inspect.signature(module.forward).parameters
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = {name: one for name, one in parameters.items() if one.kind not in variable}
    takes_more = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return named, takes_more


def refuse_unknown(what: str, name: str, known: Sequence[str]) -> NoReturn:
    """Raise a UsageError that names what comes close to ``name``."""
    close = get_close_matches(name, known, n=5) or sorted(known)[:12]
    fix = f"use one of: {', '.join(close)}" if close else None
    raise UsageError(f"{what} {name!r} is not there", fix=fix)
