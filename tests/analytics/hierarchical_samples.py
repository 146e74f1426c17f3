"""Made-up samples of hierarchical inference, as arrays that ``make_samples`` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mansard.analytics.decisions.offload.costs import mode_costs
from mansard.analytics.decisions.offload.records import ModeCosts, make_amount
from mansard.analytics.decisions.offload.samples import UNANSWERED, LabelledSamples

N_CLASSES = 10


def made_up(n: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """A calibrated local network, right for a share p1; a remote one that is right for 97 %."""
    rng = np.random.default_rng(seed)
    p1 = np.clip(rng.beta(4, 1, n), 1 / N_CLASSES, 1)
    p2 = np.minimum(p1, (1 - p1) * rng.uniform(0.3, 1, n))
    label = rng.integers(0, N_CLASSES, n)
    predicted = np.where(rng.random(n) < p1, label, (label + 1) % N_CLASSES)
    remote = np.where(rng.random(n) < 0.97, label, (label + 2) % N_CLASSES)
    return {"p1": p1, "p2": p2, "predicted": predicted, "label": label, "remote": remote}


def write_npz(path: Path, arrays: dict[str, Any]) -> Path:
    """The arrays as a file; returns ``path``."""
    np.savez(path, **arrays)
    return path


def samples_of(p1: list[float], local: list[int]) -> LabelledSamples:
    """Of p1 and the local answers alone."""
    unanswered = np.full(len(p1), UNANSWERED, np.int8)
    return LabelledSamples(np.array(p1), None, np.array(local, np.int8), unanswered, unanswered)


def exact(mode: str, **values: float) -> ModeCosts:
    """Costs that are known exactly."""
    amounts = {name: make_amount(each, each, each) for name, each in values.items()}
    return mode_costs(mode, amounts)
