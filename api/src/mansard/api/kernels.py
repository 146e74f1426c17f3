"""Kernels of one's own on this machine's CPU, measured as those of a bench are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mansard.core.errors import UsageError
from mansard.core.records import Trial

if TYPE_CHECKING:
    from mansard.microbench.kernel import Kernel


def measure_kernels(
    kernels: Sequence[Kernel],
    *,
    runs: Path = Path("runs"),
    n_cores: int = 1,
    profile: str = "brief",
) -> tuple[Trial, ...]:
    """Measure ``kernels`` in this process on the first ``n_cores`` cores, as the machine is.

    One trial for each precision and chain of a kernel of the family "fma", or for each working set
    of a stream. The rows are a run in ``runs``, which a report shows beside others; what it holds
    already is not measured again; a kernel that fails, as one that does not compile, is a row with
    ``failure``. Raises UsageError for a kernel that this CPU does not run, and as a bench does.
    """
    from mansard.core.power_mode import core_count_mode
    from mansard.core.storage.jsonl import read_rows
    from mansard.device.identity import identify
    from mansard.measuring.runner import run_plan
    from mansard.microbench.catalog import with_kernels
    from mansard.microbench.planning import make_plan

    names = {kernel.name for kernel in kernels}
    with with_kernels(kernels):
        plan = make_plan(identify(), core_count_mode(n_cores), profile)
        trials = tuple(spec for spec in plan.trials if spec.kernel in names)
        if lacking := names - {spec.kernel for spec in trials}:
            raise UsageError(
                f"the profile {profile} has no trial of {', '.join(sorted(lacking))}",
                fix="ask for the profile quick",
            )
        outcome = run_plan(replace(plan, trials=trials), runs)
    rows = read_rows(outcome.folder / "trials.jsonl", Trial, runs).rows
    return tuple(sorted(rows, key=lambda row: (row.kernel, row.working_set_bytes)))
