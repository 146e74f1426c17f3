"""What there is to measure with: versions, and the GPU where one is asked for."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import ClassVar

from mansard.core.records import Gpu, Processor, Record, Schema
from mansard.core.version import VERSION
from mansard.microbench.kernels.catalog import CATALOG

_ON_CPU = "not looked for: the kernels run on the CPU"


class Probe(Record, frozen=True, kw_only=True):
    """What a measuring process has to work with, asked before anything is planned."""

    schema: ClassVar[Schema] = Schema("probe", 1)

    versions: dict[str, str]  # of everything that can change a timing
    gpu: Gpu | None


def probe(processor: Processor) -> Probe:
    """What this process can measure ``processor`` with; a GPU that cannot be used has its reason.

    The versions are those that change a timing: ours, the compilers' and, by the hash of
    its source, every kernel's.
    """
    if processor == "cpu":
        return Probe(versions=cpu_versions(), gpu=None, unknown={"gpu": _ON_CPU})
    from mansard.microbench.cuda.catalog import CUDA_CATALOG
    from mansard.microbench.cuda.probe import probe_gpu

    found = probe_gpu()
    kernels = {f"kernel {one.name} {one.backend}": one.source_hash for one in CUDA_CATALOG}
    return Probe(
        versions={"mansard": VERSION, **found.versions, **kernels},
        gpu=found.gpu,
        unknown={} if found.gpu is not None else {"gpu": found.reason},
    )


def cpu_versions() -> dict[str, str]:
    """Versions of everything that can change a timing on the CPU."""
    kernels = {f"kernel {kernel.name}": kernel.source_hash for kernel in CATALOG}
    return {"mansard": VERSION, **library_versions("numba", "llvmlite", "numpy"), **kernels}


def library_versions(*names: str) -> dict[str, str]:
    """Versions of those of the libraries that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
