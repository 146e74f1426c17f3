"""Engines that run networks: each in the one file that may import its runtime."""

from __future__ import annotations

import importlib
from types import MappingProxyType

from mansard.core.errors import UsageError
from mansard.inference.engines.engine import Engine

# Where each engine is defined, by the name that ``measure --engine`` has for it.
ENGINES = MappingProxyType(
    {
        "ort": "mansard.inference.engines.ort:ORT",
        "tensorrt": "mansard.inference.engines.tensorrt.engine:TENSORRT",
        "trtexec": "mansard.inference.engines.trtexec.engine:TRTEXEC",
    }
)


def find_engine(name: str) -> Engine:
    """The engine of that name; raises UsageError for an unknown one."""
    path = ENGINES.get(name)
    if path is None:
        raise UsageError(f"unknown engine {name!r}", fix=f"use {' or '.join(ENGINES)}")
    module, _, defined = path.partition(":")
    engine: Engine = getattr(importlib.import_module(module), defined)
    return engine
