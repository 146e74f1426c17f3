"""The plan of a run of kernels, as a record: which kernels, at which sizes, how."""

from __future__ import annotations

from typing import ClassVar

from mansard.core.records import MemoryKind, Operands, Schema, Scope
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.microbench.kernel import Case, Stores


class TrialSpec(PlannedTrial, frozen=True, kw_only=True):
    """One trial to be made. The working set is over all threads, or the whole GPU."""

    kernel: str
    backend: str  # numba-cpu, cupy, numba-cuda or cublas
    precision: str
    working_set_bytes: int
    fma_per_element: int | None
    stores: Stores | None
    operands: Operands = "chaotic"
    scope: Scope = "core"
    memory: MemoryKind = "host"

    @property
    def title(self) -> str:
        """What is shown while the trial runs."""
        chain = f" × {self.fma_per_element}" if self.fma_per_element is not None else ""
        backend = "" if self.backend == "numba-cpu" else f" ({self.backend})"
        size = f"{self.working_set_bytes // 1024} KiB"
        return f"{self.kernel}{chain} {self.precision}{backend}, {size}"

    def case(self, n_threads: int = 1) -> Case:
        """What one of ``n_threads`` threads runs, its share of the working set; or a GPU, all."""
        return Case(
            kernel=self.kernel,
            precision=self.precision,
            working_set_bytes=self.working_set_bytes // n_threads,
            fma_per_element=self.fma_per_element,
            stores=self.stores,
            operands=self.operands,
            scope=self.scope,
            memory=self.memory,
        )


class KernelPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of kernels."""

    schema: ClassVar[Schema] = Schema("plan", 3)
    kind: ClassVar[str] = "mansard.microbench.trial:KERNELS"

    trials: tuple[TrialSpec, ...]
