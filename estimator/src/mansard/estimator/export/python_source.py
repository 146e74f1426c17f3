"""A PyTorch network from the user's own code: imported, called, and looked at."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module, invalidate_caches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from mansard.core.errors import ModelError, UsageError
from mansard.estimator.export.extras import need
from mansard.estimator.export.network import foreign_code, refuse_unknown
from mansard.estimator.export.sources import PythonSource


def build_from_python(source: PythonSource, settings: Mapping[str, object]) -> Any:
    """The torch.nn.Module that ``source`` is, or makes when called with ``settings``.

    Raises UsageError where there is no such module or attribute, or it is no network;
    ModelError where the user's code raises.
    """
    torch = need("torch")
    module = _import_file(Path(source.place)) if source.is_file else _import_path(source.place)
    found: Any = module
    for part in source.attribute.split("."):
        if not hasattr(found, part):
            names = [name for name in vars(found) if not name.startswith("_")]
            refuse_unknown(f"{source.place}: the attribute", part, names)
        found = getattr(found, part)
    where = f"{source.place}:{source.attribute}"
    if not isinstance(found, torch.nn.Module):
        if not callable(found):
            raise UsageError(
                f"is a {type(found).__name__}",
                where=where,
                fix="name a torch.nn.Module, or a function that makes one",
            )
        with foreign_code(where):
            found = found(**settings)
    elif settings:
        raise UsageError("is a network already, --set cannot change it", where=where)
    if not isinstance(found, torch.nn.Module):
        raise UsageError(
            f"gives a {type(found).__name__}, not a torch.nn.Module",
            where=where,
            fix="return the network alone",
        )
    return found


def _import_path(name: str) -> ModuleType:
    """The module ``name``, also from the current folder, as ``python -m`` would find it."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    invalidate_caches()
    try:
        with foreign_code(f"importing {name}"):
            return import_module(name)
    except ModelError as error:
        missing = error.__cause__
        # Only the module itself or one of its parents: what it imports is its own affair.
        if isinstance(missing, ModuleNotFoundError) and _is_part(missing.name, name):
            raise UsageError(
                f"there is no module {missing.name!r}",
                fix="give its import path from here, or the path of its file: net.py:factory",
            ) from error
        raise


def _is_part(missing: str | None, name: str) -> bool:
    return missing is not None and (name == missing or name.startswith(f"{missing}."))


def _import_file(path: Path) -> ModuleType:
    """The module in the file ``path``; it may import what lies beside it."""
    if not path.is_file():
        raise UsageError("there is no such file", where=str(path))
    name = f"_mansard_export_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError("is no Python file", where=str(path))
    module = module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with foreign_code(f"running {path}"):
        spec.loader.exec_module(module)
    return module
