"""What the rows of networks have in common: which network they are of, and failures to try again.

A failure that may be gone another time is tried again by the same command.
"""

from __future__ import annotations

from typing import Any

from mansard.core.processes.programs import names_outer_signal
from mansard.inference.engines import find_engine
from mansard.inference.plan import BuildTrial, NetworkTrial
from mansard.measuring.plan import RunPlan

# What the failure of its measurement begins with; the second: the next command tries it again.
NOT_BUILT = "it could not be built"
NOT_BUILT_NOW = f"{NOT_BUILT} now"
_NO_MEMORY = "too little memory"


def is_for_now(failure: str | None) -> bool:
    """Whether the reason may be gone: memory that was short, a process that was killed."""
    if failure is None:
        return False
    if failure.startswith(NOT_BUILT):
        return failure.startswith(NOT_BUILT_NOW)
    return _NO_MEMORY in failure or names_outer_signal(failure)


_OF_A_NETWORK = ("model", "model_hash", "engine", "precision", "batch", "dimensions")


def head(network: NetworkTrial | BuildTrial, plan: RunPlan, trial_id: str = "") -> dict[str, Any]:
    """The fields that say so; ``trial_id``: of a trial that only holds ``network``."""
    return {
        "run_id": plan.run_id,
        "trial_id": trial_id or network.trial_id,
        "source": "simulated" if plan.machine.is_simulated else "measured",
        "engine_version": plan.versions[find_engine(network.engine).package],
        **{name: getattr(network, name) for name in _OF_A_NETWORK},
    }


def why_no_batch(network: NetworkTrial | BuildTrial) -> dict[str, str]:
    """The reason in ``unknown`` where the batch is not known."""
    return {} if network.batch is not None else {"batch": network.unknown["batch"]}
