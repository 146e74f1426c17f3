"""All kernels there are: the tuples ``KERNELS`` in the files of two folders."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import get_args

from mansard.core.errors import UsageError
from mansard.core.records.trial import Family
from mansard.microbench.kernel import Backend, Kernel

# Plans name trials in this order before they shuffle them, so it is a part of a run's id.
_BACKENDS: tuple[str, ...] = get_args(Backend)
_FAMILIES: tuple[str, ...] = get_args(Family)
_added: list[Kernel] = []


def cpu_kernels() -> tuple[Kernel, ...]:
    """The kernels of CPUs, which Numba compiles."""
    return (*_kernels_of("mansard.microbench.cpu.kernels"), *_added)


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


@contextmanager
def with_kernels(kernels: Iterable[Kernel]) -> Iterator[None]:
    """``kernels`` of a CPU are among those that there are, in this process, until the block ends.

    Raises UsageError for a second kernel of one name, and for one that a CPU does not run.
    """
    known = cpu_kernels()
    new = [kernel for kernel in kernels if kernel not in known]
    names = [kernel.name for kernel in (*known, *new)]
    for kernel in new:
        if names.count(kernel.name) > 1:
            raise UsageError(
                f"there is a kernel {kernel.name!r} already", fix="give yours another name"
            )
        if kernel.backend != "numba-cpu":
            raise UsageError(
                f"kernel {kernel.name!r} is of the backend {kernel.backend}",
                fix="a CPU runs kernels of numba-cpu",
            )
    _added.extend(new)
    try:
        yield
    finally:
        for kernel in new:
            _added.remove(kernel)


def _kernels_of(package: str) -> tuple[Kernel, ...]:
    return _read_folders(package, tuple(importlib.import_module(package).__path__))


@cache
def _read_folders(package: str, folders: tuple[str, ...]) -> tuple[Kernel, ...]:
    found: list[Kernel] = []
    for module in pkgutil.iter_modules(folders, f"{package}."):
        found += importlib.import_module(module.name).KERNELS
    found.sort(key=lambda one: (_BACKENDS.index(one.backend), _FAMILIES.index(one.family)))
    return tuple(found)
