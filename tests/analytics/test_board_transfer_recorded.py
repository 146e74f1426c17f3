"""What times carried over between recorded boards were off, again from what ships."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from board_transfer import MANSARD, judge, left_out, of_pair
from recorded.boards import draws, read_sets
from recorded.network_totals import read_tables

from mansard.analytics.models.predict.board_transfer import LEFT_OUT


def test_the_errors_that_notes_state_are_those_of_what_ships() -> None:
    for kind, of_kind in left_out().items():
        for k, errors in of_kind.items():
            assert LEFT_OUT[kind][k] == pytest.approx(errors, abs=0.0051), (kind, k)


@pytest.mark.shared_data
def test_boards_that_no_prior_was_chosen_on_are_within_their_intervals(shared_data: Path) -> None:
    for recording in read_sets(shared_data):
        if recording.is_new and recording.name.startswith("YOLO"):
            found = [judge(draw) for draw in draws(recording, 1, 5)]
            assert np.concatenate([one.held for one in found]).mean() >= 0.95
            mine, factor = (
                np.median(np.abs(np.concatenate([one.logs[model] for one in found])))
                for model in (MANSARD, "one factor")
            )
            assert mine < factor


@pytest.mark.shared_data
def test_counted_work_brings_mixed_networks_nearer(shared_data: Path) -> None:
    tables = {table.label: table for table in read_tables(shared_data)}
    found = list(of_pair(tables["Jetson TX2"], tables["Jetson AGX Orin"], 4, 5))
    with_work, alone, calibrated = (
        np.median(np.abs(np.concatenate([one.logs[model] for one in found])))
        for model in (MANSARD, "the line alone", "calibration by totals")
    )
    assert with_work < 0.8 * alone < alone < calibrated
