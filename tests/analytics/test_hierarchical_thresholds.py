"""Every threshold at once, against counting sample by sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.accuracies import wilson_ends
from mansard.analytics.decisions.offload.samples import RIGHT, UNANSWERED, WRONG, LabelledSamples
from mansard.analytics.decisions.offload.thresholds import (
    draw,
    kind_counts,
    reached,
    share_ends,
    sweep,
    thinned,
)

# Few different confidences, so that most of them are equal to others.
CONFIDENCES = st.sampled_from([0.0, 0.1, 0.25, 0.5, np.nextafter(0.5, 1), 0.9, 1.0])
ROW = st.tuples(
    CONFIDENCES, st.sampled_from([RIGHT, WRONG]), st.sampled_from([RIGHT, WRONG, UNANSWERED])
)
ROWS = st.lists(ROW, min_size=1, max_size=40)


def samples_of(rows: list[tuple[float, int, int]]) -> LabelledSamples:
    p1, local, remote = (np.array(each) for each in zip(*rows, strict=True))
    ints = (local.astype(np.int8), remote.astype(np.int8))
    return LabelledSamples(
        p1.astype(np.float64), None, *ints, np.full(len(rows), UNANSWERED, np.int8)
    )


def counted(samples: LabelledSamples, threshold: float) -> tuple[int, int, int, int]:
    """Offloaded; right; offloaded without an answer; kept and wrong: one sample after the other."""
    n_offloaded = n_right = n_unanswered = n_kept_wrong = 0
    for p1, local, remote in zip(samples.p1, samples.local, samples.remote, strict=True):
        if p1 < threshold:
            n_offloaded += 1
            n_right += remote == RIGHT
            n_unanswered += remote == UNANSWERED
        else:
            n_right += local == RIGHT
            n_kept_wrong += local == WRONG
    return n_offloaded, n_right, n_unanswered, n_kept_wrong


@given(ROWS)
def test_every_threshold_counts_as_sample_by_sample(rows: list[tuple[float, int, int]]) -> None:
    samples = samples_of(rows)
    one = sweep(samples, samples.p1)
    # One for each different confidence, and one above all.
    assert len(one.threshold) == len({row[0] for row in rows}) + 1
    for at, threshold in enumerate(one.threshold):
        *counts, n_kept_wrong = counted(samples, threshold)
        found = (one.n_offloaded, one.n_right, one.n_unanswered)
        assert [int(each[at]) for each in found] == counts
        assert one.kept_wrong[at] == n_kept_wrong / len(rows)
    assert (one.n_offloaded[0], one.n_offloaded[-1]) == (0, len(rows))


@given(ROWS, st.integers(2, 6))
def test_counts_of_kinds_reach_what_the_sweep_has(
    rows: list[tuple[float, int, int]], n_most: int
) -> None:
    samples = samples_of(rows)
    one = sweep(samples, samples.p1)
    few = thinned(one, n_most)
    assert (few[0], few[-1]) == (0, len(one.threshold) - 1)
    found = reached(kind_counts(samples, samples.p1, one.threshold[few]), "threshold")
    np.testing.assert_array_equal(found.share, one.share[few])
    np.testing.assert_array_equal(found.accuracy_least, one.accuracy_least[few])
    np.testing.assert_array_equal(found.accuracy_most, one.accuracy_most[few])
    np.testing.assert_allclose(found.cost(0.3), one.cost(0.3)[few], rtol=1e-15)


def test_four_samples_by_hand() -> None:
    rows = [(0.2, WRONG, RIGHT), (0.4, RIGHT, WRONG), (0.4, WRONG, UNANSWERED), (0.9, RIGHT, RIGHT)]
    one = sweep(samples_of(rows), np.array([row[0] for row in rows]))
    # Offloaded: none; the first; the first three; all. Kept right 2, 2, 1, 0; remote 0, 1, 1, 2.
    assert one.n_offloaded.tolist() == [0, 1, 3, 4]
    assert one.accuracy_least.tolist() == [0.5, 0.75, 0.5, 0.5]
    assert one.accuracy_most.tolist() == [0.5, 0.75, 0.75, 0.75]
    # Kept wrong: 2, 1, 0, 0; each offload costs 0.3: (2, 1 + 0.3, 0.9, 1.2) / 4.
    assert one.cost(0.3).tolist() == pytest.approx([0.5, 0.325, 0.225, 0.3])
    # No confidence is below 0, and all are below the first number above 1.
    assert one.threshold.tolist() == [0.0, 0.4, 0.9, np.nextafter(1, 2)]


def test_drawing_counts_is_drawing_samples() -> None:
    rng = np.random.default_rng(3)
    n = 300
    rows = [
        (float(p1), int(rng.random() < p1), int(rng.choice([RIGHT, WRONG, UNANSWERED])))
        for p1 in rng.random(n)
    ]
    samples = samples_of(rows)
    thresholds = np.array([0.3, 0.7])
    table = kind_counts(samples, samples.p1, thresholds)
    by_counts = reached(draw(table, 4000, seed=1), "threshold").accuracy_least
    by_samples = np.empty((4000, 2))
    for at in range(4000):
        again = samples.at(rng.integers(0, n, n))
        one = sweep(again, again.p1)
        places = np.searchsorted(one.threshold, thresholds)
        by_samples[at] = one.accuracy_least[places]
    # Standard errors of 4,000 draws: of a mean 0.03 / √4000 = 0.0005, of a quantile some 0.0015.
    np.testing.assert_allclose(by_counts.mean(0), by_samples.mean(0), atol=0.003)
    for share in (0.025, 0.975):
        np.testing.assert_allclose(
            np.quantile(by_counts, share, 0), np.quantile(by_samples, share, 0), atol=0.008
        )


def test_a_share_that_was_never_seen_is_bounded() -> None:
    # Of 10 samples none: 1.96² / 10 = 0.38415; 0.38415 / 1.38415 = 0.27754 at most.
    low, high = wilson_ends(np.array([0.0, 1.0, 0.5]), 10, 1.959964)
    assert low.tolist() == pytest.approx([0, 0.72246, 0.23659], abs=1e-5)
    assert high.tolist() == pytest.approx([0.27754, 1, 0.76341], abs=1e-5)
    alike = np.ones((50, 1))
    assert share_ends(alike, 10)[0][0] == pytest.approx(0.72246, abs=1e-4)
    # Draws that differ are the bootstrap's own.
    differ = np.linspace(0.4, 0.6, 41)[:, None]
    assert share_ends(differ, 10)[0][0] == pytest.approx(0.405)
