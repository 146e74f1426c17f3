"""All kernels there are: the tuples ``KERNELS`` in the files of two folders."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import get_args

from mansard.core.errors import UsageError
from mansard.core.records.trial import Family
from mansard.microbench.kernel import Backend, Kernel

# Plans name trials in this order before they shuffle them, so it is a part of a run's id.
_BACKENDS: tuple[str, ...] = get_args(Backend)
_FAMILIES: tuple[str, ...] = get_args(Family)


def cpu_kernels() -> tuple[Kernel, ...]:
    """The kernels of CPUs, which Numba compiles."""
    return _kernels_of("mansard.microbench.cpu.kernels")


def cuda_kernels() -> tuple[Kernel, ...]:
    """The kernels of GPUs, of all backends."""
    return _kernels_of("mansard.microbench.cuda.kernels")


def find_kernel(name: str, backend: str = "numba-cpu") -> Kernel:
    """The kernel ``name`` of a backend; raises UsageError with the known names."""
    kernels = cpu_kernels() if backend == "numba-cpu" else cuda_kernels()
    known = {kernel.name: kernel for kernel in kernels if kernel.backend == backend}
    if name not in known:
        raise UsageError(
            f"unknown kernel {name!r} of the backend {backend}",
            fix=f"use one of {', '.join(known)}",
        )
    return known[name]


def _kernels_of(package: str) -> tuple[Kernel, ...]:
    return _read_folders(package, tuple(importlib.import_module(package).__path__))


@cache
def _read_folders(package: str, folders: tuple[str, ...]) -> tuple[Kernel, ...]:
    found: list[Kernel] = []
    for module in pkgutil.iter_modules(folders, f"{package}."):
        found += importlib.import_module(module.name).KERNELS
    found.sort(key=lambda one: (_BACKENDS.index(one.backend), _FAMILIES.index(one.family)))
    return tuple(found)
