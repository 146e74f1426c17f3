"""The time left: recorded sweeps replayed, and the laws of the estimate."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.clock import VirtualClock
from mansard.sweeps.reporter import ProgressStage, SteadyTimeLeft, TimeLeft

# Seconds of each trial as a sweep of four modes took them, on a machine that others used too.
KERNELS = (
    (1.5, 2.8, 1.7, 1.5, 1.8, 2.8, 2.5, 1.5, 2.0, 1.4, 1.6, 1.6, 1.6, 5.4),
    (2.7, 1.9, 2.7, 1.8, 1.7, 1.9, 2.9, 2.3, 1.8, 4.1, 2.3, 2.1, 1.8, 1.6),
    (2.7, 1.2, 1.6, 1.4, 1.4, 1.3, 2.2, 3.4, 2.3, 2.0, 1.6, 1.5, 1.9, 1.7),
    (1.7, 1.6, 2.1, 1.9, 1.8, 1.7, 1.7, 2.0, 1.8, 1.7, 1.8, 2.8, 1.5, 1.6),
)
NETWORKS = (
    (2.7, 2.8, 4.4, 1.4, 1.4),
    (2.4, 3.0, 3.5, 1.5, 1.6),
    (2.3, 3.4, 3.5, 1.6, 1.6),
    (2.6, 2.9, 4.0, 1.7, 1.7),
)
START_S = {"": 3.0, "networks": 4.0}  # setting the mode and idling; starting a process
WITHIN = 1.5  # after a fifth of the work


def stages_of(durations: Sequence[tuple[str, Sequence[float]]]) -> list[ProgressStage]:
    return [
        ProgressStage(kind, [f"{kind} {n}" for n in range(len(each))], prior_s=0.0)
        for kind, each in durations
    ]


def replayed(
    durations: Sequence[tuple[str, Sequence[float]]], start_s: dict[str, float]
) -> list[tuple[float, float | None, float]]:
    """At each step: the share of the time that is over, the estimate, and what is really left."""
    hand = VirtualClock(50.0)
    left = TimeLeft(stages_of(durations), hand.now_s)
    total_s = sum(start_s[kind] + sum(each) for kind, each in durations)
    end_s, seen = hand.now_s() + total_s, []
    for number, (kind, each) in enumerate(durations):
        left.begin(number)
        hand.sleep(start_s[kind])
        for n_done in range(len(each) + 1):
            found = left.remaining_s(len(each) - n_done)
            over = 1 - (end_s - hand.now_s()) / total_s
            seen.append((over, found, end_s - hand.now_s()))
            if n_done < len(each):
                hand.sleep(each[n_done])
    return seen


def test_a_recorded_sweep_of_four_modes_is_estimated_within_a_factor_after_a_fifth() -> None:
    durations = [
        stage
        for kernels, networks in zip(KERNELS, NETWORKS, strict=True)
        for stage in (("", kernels), ("networks", networks))
    ]
    late = [one for one in replayed(durations, START_S) if one[0] >= 0.2]
    assert len(late) > 60
    for over, found, really_s in late:
        assert found is not None
        if really_s > 5.0:  # less is the length of one trial
            assert really_s / WITHIN <= found <= really_s * WITHIN, (over, found, really_s)


def test_each_kind_has_its_own_pace() -> None:
    """Networks that take ten times a kernel's time, in four modes of ten and ten."""
    durations = [("", [2.0] * 10), ("networks", [20.0] * 10)] * 4
    # 4 x (20 + 200) = 880 s, of which the first mode is a quarter; then both kinds are known.
    seen = replayed(durations, {"": 0.0, "networks": 0.0})
    assert all(left_s == pytest.approx(really_s) for over, left_s, really_s in seen if over > 0.25)


def test_what_is_not_known_is_not_estimated() -> None:
    hand = VirtualClock(50.0)
    left = TimeLeft([ProgressStage("", ["a", "b"], 0.0)], hand.now_s)
    left.begin(0)
    assert left.remaining_s(2) is None
    hand.sleep(3.0)
    assert left.remaining_s(1) == pytest.approx(3.0)
    hand.sleep(2.0)  # the second trial has begun 2 s ago
    assert left.remaining_s(1) == pytest.approx(1.0)
    hand.sleep(9.0)
    assert left.remaining_s(1) == 0.0


def test_a_prior_counts_until_its_kind_was_timed_and_later_trials_count() -> None:
    hand = VirtualClock(50.0)
    stages = [ProgressStage("", ["a", "b"], 2.0), ProgressStage("networks", ["c"], 30.0, n_after=2)]
    left = TimeLeft(stages, hand.now_s)
    left.begin(0)
    assert left.remaining_s(2) == pytest.approx(34.0)  # 2 x 2 s + 30 s
    hand.sleep(1.0)
    assert left.remaining_s(1) == pytest.approx(31.0)
    hand.sleep(1.0)
    left.begin(1)
    assert left.remaining_s(1) == pytest.approx(90.0)  # c, and two of its kind afterwards


def test_steady_steps_have_no_estimate_before_a_fifth() -> None:
    hand = VirtualClock(50.0)
    steady = SteadyTimeLeft(hand.now_s)
    found = []
    for n_done in range(6):
        found.append(steady.remaining_s(n_done, 10))
        hand.sleep(2.0)
    # Two of ten after 4 s: 16 s; five of ten after 10 s: 10 s.
    assert found == [None, None, 16.0, 14.0, 12.0, 10.0]
    assert steady.remaining_s(10, 10) is None


@given(
    st.lists(st.lists(st.floats(0.5, 1.0), min_size=1, max_size=9), min_size=1, max_size=5),
    st.floats(0.0, 3.0),
)
def test_trials_within_a_factor_of_two_are_estimated_within_it(
    modes: list[list[float]], start_s: float
) -> None:
    durations = [("", each) for each in modes]
    for over, found, really_s in replayed(durations, {"": start_s}):
        if found is not None and over > 0:
            assert really_s / 2 - 1e-6 <= found <= really_s * 2 + 1e-6
