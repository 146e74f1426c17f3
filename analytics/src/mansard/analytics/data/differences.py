"""What tells scores of one network apart: a decoder's stages, sizes of an image."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.records import ModelScore


def differing_dimensions(scores: Sequence[ModelScore]) -> list[str]:
    """For each score its dimensions that other scores of the network have otherwise.

    What the batch tells is left out; empty where nothing differs.
    """
    found = []
    for score in scores:
        others = [other for other in scores if other.model_hash == score.model_hash]
        names = [
            name
            for name in score.dimensions
            if any(other.dimensions.get(name) != score.dimensions[name] for other in others)
            and any(other.dimensions.get(name) != other.batch for other in others)
        ]
        found.append(", ".join(f"{name} {score.dimensions[name]}" for name in names))
    return found
