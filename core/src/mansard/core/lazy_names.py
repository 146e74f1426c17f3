"""Names of a module that are imported on first use: those that its stub (``.pyi``) imports."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from mansard.core.extras import missing_library


def lazy_names(
    module: str, file: str, adapt: Callable[[Any], Any] = lambda value: value
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``module``, whose values go through ``adapt``.

    A command that lists power modes starts without Polars, and type checkers read the same list. A
    name that needs a library which is not installed raises MissingLibrary.
    """

    @cache
    def homes() -> dict[str, str]:
        stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
        return {
            alias.name: str(statement.module)
            for statement in stub.body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }

    def import_name(name: str) -> Any:
        if name.startswith("_") or name not in homes():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            value = adapt(getattr(import_module(homes()[name]), name))
        except ModuleNotFoundError as error:
            if missing := missing_library(error):
                raise missing from error
            raise
        setattr(sys.modules[module], name, value)
        return value

    return import_name, lambda: sorted(homes())
