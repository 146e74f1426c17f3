"""What all rows of networks have: the fields that describe the network, and temporary failures.

A trial with a failure that may be temporary is repeated by the same command.
"""

from __future__ import annotations

from typing import Any

from mansard.core.processes.programs import names_outer_signal
from mansard.inference.engines import find_engine
from mansard.inference.plan import BuildTrial, NetworkTrial
from mansard.measuring.plan import RunPlan

# How failures begin; the next command repeats a trial with the second.
NOT_BUILT = "it could not be built"
NOT_BUILT_NOW = f"{NOT_BUILT} now"
_NO_MEMORY = "too little memory"


def is_for_now(failure: str | None) -> bool:
    """Whether a failure may be temporary: too little memory, a killed process."""
    if failure is None:
        return False
    if failure.startswith(NOT_BUILT):
        return failure.startswith(NOT_BUILT_NOW)
    return _NO_MEMORY in failure or names_outer_signal(failure)


_OF_A_NETWORK = ("model", "model_hash", "engine", "precision", "batch", "dimensions")


def head(network: NetworkTrial | BuildTrial, plan: RunPlan, trial_id: str = "") -> dict[str, Any]:
    """The fields of a row that describe its network; ``trial_id``: of a trial that contains it."""
    return {
        "run_id": plan.run_id,
        "trial_id": trial_id or network.trial_id,
        "source": "simulated" if plan.machine.is_simulated else "measured",
        "engine_version": plan.versions[find_engine(network.engine).package],
        **{name: getattr(network, name) for name in _OF_A_NETWORK},
    }


def why_no_batch(network: NetworkTrial | BuildTrial) -> dict[str, str]:
    """``unknown`` with a reason where the batch is not known."""
    return {} if network.batch is not None else {"batch": network.unknown["batch"]}
