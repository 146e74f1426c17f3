"""From a few measured modes to a recommendation among all, checked on a board whose laws are known.

Five of fifteen modes are measured; ``scale`` models the others, ``predict`` the networks in them.
The truth is what the board's own laws give in every mode.
"""

from __future__ import annotations

import polars as pl
import pytest

from mansard.analytics.decisions.records import OBJECTIVES, Objective, Recommendation, Wanted
from mansard.analytics.models.predict.engine import predict_scores
from mansard.analytics.models.scaling.board import scale
from tests.analytics.answers import recommend
from tests.analytics.model_factory import (
    NETWORKS,
    board_coefficients,
    board_modes,
    network_groups,
    score_name,
)

MEASURED = (0, 2, 7, 12, 14)  # the corners of both clocks, and the middle


def predictions(*, modelled: bool) -> pl.DataFrame:
    """Of all networks at batch 1 in fp16 in all fifteen modes."""
    modes = board_modes()
    coefficients = board_coefficients(modes)
    if modelled:
        few = modes[list(MEASURED)]
        known = coefficients.join(few.select("mode"), on="mode", how="semi")
        coefficients = scale(few, known, modes)
    scores = pl.DataFrame(
        [
            {"score_id": score_name(name, 1, "fp16"), "network": name, "batch": 1,
             "precision": "fp16", "phase": "inference"}
            for name in NETWORKS
        ]
    )  # fmt: skip
    found = predict_scores(network_groups((1,), ("fp16",)), scores, coefficients, modes).collect()
    # The truth is such a roof itself: here its intervals hold the whole error.
    return found.with_columns(interval=pl.lit("spread"))


@pytest.fixture(scope="module")
def modelled() -> pl.DataFrame:
    return predictions(modelled=True)


@pytest.fixture(scope="module")
def truth() -> pl.DataFrame:
    return predictions(modelled=False)


def true_objective(row: dict[str, float], minimise: Objective) -> float:
    if minimise == "edp":
        return row["energy_j"] * row["latency_s"]
    return row[{"energy": "energy_j", "latency": "latency_s", "power": "power_w"}[minimise]]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("minimise", OBJECTIVES)
@pytest.mark.parametrize("share", [None, 0.3, 0.6])
def test_a_recommendation_among_modelled_modes_holds_in_truth(
    modelled: pl.DataFrame,
    truth: pl.DataFrame,
    network: str,
    minimise: Objective,
    share: float | None,
) -> None:
    rows = truth.filter(network=network).to_dicts()
    by_mode = {row["mode"]: row for row in rows}
    # A limit that this share of the modes keeps.
    powers = sorted(row["power_w"] for row in rows)
    most_w = None if share is None else powers[int(share * len(powers))]
    wanted = Wanted(minimise=minimise, max_power_w=most_w, probability=0.975)
    found: Recommendation = recommend(modelled.filter(network=network), wanted)
    keeping = [row for row in rows if most_w is None or row["power_w"] <= most_w]
    assert found.verdict == "feasible"
    assert found.choice is not None
    mine = by_mode[found.choice.mode]
    assert mine in keeping
    best = min(true_objective(row, minimise) for row in keeping)
    assert found.most_excess is not None
    assert true_objective(mine, minimise) <= best * (1 + found.most_excess) * (1 + 1e-9)
