"""Networks to measure here so that others are known by their times on other boards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mansard.analytics.models.predict.board_transfer import called, next_anchors

if TYPE_CHECKING:
    from mansard.analytics.models.predict.prediction import Prediction


def is_elsewhere(network: str, prediction: Prediction) -> bool:
    """Whether the runs know nothing of a network that is recorded on another board."""
    frames = (prediction.models.observations, prediction.predictions)
    names = {name.casefold() for frame in frames for name in frame["network"].unique()}
    if network.casefold() in names:
        return False
    return not called(prediction.models.recordings, network).is_empty()


def anchor_notes(asked: Sequence[str], prediction: Prediction, device: str) -> tuple[str, ...]:
    """The networks to measure on ``device`` so that others are known by times of other boards.

    The others are those that are ``asked``; none: all of the runs.
    """
    models, names = prediction.models, ["network", "batch", "precision", "phase"]
    recorded = models.recordings
    scored, ran = prediction.scores.select(names), models.observations.select(names)
    wanted = scored.vstack(ran.filter(~ran["network"].is_in(scored["network"].to_list())))
    if asked:
        wanted = wanted.filter(wanted["network"].is_in(list(asked)))
        elsewhere = (called(recorded, one) for one in asked if is_elsewhere(one, prediction))
        for rows in elsewhere:
            wanted = wanted.vstack(rows.select(names))
    anchors = next_anchors(recorded, device, wanted.unique(maintain_order=True))
    return tuple(anchor.text for anchor in anchors)
