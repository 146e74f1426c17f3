"""What the rows of networks have in common: of which run, trial and network they are."""

from __future__ import annotations

from typing import Any

from mansard.inference.engines import find_engine
from mansard.inference.plan import BuildTrial, NetworkTrial
from mansard.measuring.plan import RunPlan

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
