"""The line between two boards, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.predict.board_line import (
    CountedAnchors,
    best_anchor,
    carry_counted,
    fit_board_line,
)

TIMES = st.lists(
    st.tuples(st.floats(1e-4, 1.0), st.floats(1e-4, 1.0)), min_size=1, max_size=6, unique=True
)


def test_one_anchor_gives_the_level_and_its_ratio_the_slope() -> None:
    # 10 ms and 20 ms: rho = ln 2 = 0.6931, the slope exp(0.06931) = 1.07177.
    line = fit_board_line(np.array([0.010]), np.array([0.020]))
    assert line.ratio == pytest.approx(2)
    assert line.slope == pytest.approx(1.07177, rel=1e-5)
    # The scatter squared: 0.08^2 + 0.06931^2 = 0.0112045.
    assert line.scatter == pytest.approx(0.105851, rel=1e-4)
    seconds, half = line.carry(np.array([0.010, 0.040]))
    # At the anchor 20 ms; four times as long: 20 ms * 4^1.07177 = 88.37 ms.
    assert seconds == pytest.approx([0.020, 0.08837], rel=1e-4)
    # t(4) = 2.7764 times 0.105851 times sqrt(1 + 1) and sqrt(1 + 1 + 1.38629^2 / 1).
    assert half == pytest.approx([0.41562, 0.58201], rel=1e-3)


def test_two_anchors_pull_the_slope_and_count_their_misses() -> None:
    # Both boards' times go from 1 to 4: the data say slope 1, the prior 1.07177. Distances are
    # +-0.69315, their squares 0.96091: slope = (0.96091 + 1.07177) / 1.96091 = 1.03660.
    line = fit_board_line(np.array([0.010, 0.040]), np.array([0.020, 0.080]))
    assert line.slope == pytest.approx(1.03660, rel=1e-5)
    # Misses 2 * (0.69315 * 0.03660)^2 + (1.03660 - 1.07177)^2 = 0.0012871 + 0.0012369; with the
    # prior 4 * 0.0112045 over 4 + 2 - 1: 0.0094684, its root 0.097306.
    assert line.scatter == pytest.approx(0.097306, rel=1e-4)


def test_a_board_that_is_as_fast_has_slope_one() -> None:
    line = fit_board_line(np.array([0.010]), np.array([0.010]))
    assert line.slope == pytest.approx(1)
    assert line.scatter == pytest.approx(0.08)


@given(TIMES, st.floats(1e-4, 1.0), st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(
    times: list[tuple[float, float]], wanted: float, unit: float
) -> None:
    a, b = np.array(times).T
    plain = fit_board_line(a, b).carry(np.array([wanted]))
    scaled = fit_board_line(unit * a, unit * b).carry(np.array([unit * wanted]))
    assert scaled.seconds / unit == pytest.approx(plain.seconds, rel=1e-6)
    assert scaled.half == pytest.approx(plain.half, rel=1e-6)


def test_the_first_anchor_is_the_network_in_the_middle() -> None:
    # Sums of sqrt(2 + d^2) of the others: middle 2 * sqrt(3) = 3.46, an end sqrt(3) + sqrt(6).
    log_s = np.array([0.0, 1.0, 2.0])
    assert best_anchor(log_s, log_s, np.array([])) == 1


def test_the_next_anchor_is_where_the_most_networks_are_far() -> None:
    # With one at 0, one at 3 frees the slope where four of the wanted are.
    wanted = np.array([3.0, 3.1, 2.9, 3.2, 0.1])
    at = best_anchor(wanted, wanted, np.array([0.0]))
    assert wanted[at] > 2


# What a run costs, seconds of work and of traffic at the roofs, launches.
WORK, TRAFFIC = [1.0, 1e-3, 0.0, 0.0], [1.0, 0.0, 1e-3, 0.0]


def test_where_both_boards_lines_have_one_ratio_the_network_is_drawn_to_it() -> None:
    # All of B's times are twice A's, so are its lines: 2 * 160 ms. The line of logarithms says
    # 40 ms * 8^1.03660 = 345.3 ms; of two anchors each counts a half: sqrt(320 * 345.3) = 332.4 ms.
    a, b, wanted = np.array([0.010, 0.040]), np.array([0.020, 0.080]), np.array([0.160])
    plain = fit_board_line(a, b).carry(wanted)
    assert plain.seconds == pytest.approx([0.3453], rel=1e-4)
    anchors = CountedAnchors(a, b, np.array([WORK, TRAFFIC]))
    found = carry_counted(plain, wanted, anchors, np.array([[1.0, 16e-3, 0.0, 0.0]]))
    assert found.seconds == pytest.approx([0.3324], rel=1e-4)
    assert found.half == pytest.approx(plain.half)


def test_a_network_of_work_follows_the_anchor_of_work() -> None:
    # Work is four times as slow on B, traffic twice: the line of logarithms knows but sqrt(8).
    a, b = np.array([0.010, 0.010]), np.array([0.040, 0.020])
    plain = fit_board_line(a, b).carry(np.array([0.010, 0.010]))
    assert plain.seconds == pytest.approx([0.02828, 0.02828], rel=1e-3)
    anchors = CountedAnchors(a, b, np.array([WORK, TRAFFIC]))
    found = carry_counted(plain, np.array([0.010, 0.010]), anchors, np.array([WORK, TRAFFIC]))
    assert 0.030 < found.seconds[0] < 0.040
    assert 0.020 < found.seconds[1] < 0.027


def test_one_scored_anchor_says_nothing_of_work() -> None:
    plain = fit_board_line(np.array([0.010]), np.array([0.020])).carry(np.array([0.040]))
    anchors = CountedAnchors(np.array([0.010]), np.array([0.020]), np.array([WORK]))
    assert carry_counted(plain, np.array([0.040]), anchors, np.array([TRAFFIC])) is plain
