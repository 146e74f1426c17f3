"""HI-LCB on recorded samples, step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mansard.analytics.decisions.offload.policies import replay
from mansard.analytics.decisions.offload.records import Goal, HiSettings
from mansard.analytics.decisions.offload.samples import RIGHT, LabelledSamples, make_samples
from mansard.core.errors import UsageError
from tests.analytics.answers import analyse
from tests.analytics.hierarchical_samples import exact, made_up


def test_a_replay_offloads_all_or_nothing_where_that_is_clear() -> None:
    samples = make_samples(made_up(300), "made up")
    free, _ = replay(samples, 1e-9, n_orders=3)
    # An offload that costs nothing is never worse, and 1 − lower ≥ 0 always.
    assert free.share == 1.0
    assert free.regret == pytest.approx(0, abs=1e-6)
    dear, _ = replay(samples, 1.5, n_orders=3)
    # No wrong answer costs 1.5: nothing is offloaded, and no threshold does better.
    assert (dear.share, dear.regret) == (0.0, 0.0)
    assert dear.accuracy == float((samples.local == RIGHT).mean())


@pytest.mark.parametrize("is_lite", [False, True])
def test_one_step_after_the_other_gives_the_same_replay(is_lite: bool) -> None:
    """The policy once more, on one order, in plain Python."""
    samples = make_samples(made_up(400, seed=2), "made up")
    beta, n_bins, alpha = 0.3, 20, 0.52
    found = replay(samples, beta, n_orders=1, seed=7)[int(is_lite)]
    assert found.policy == ("HI-LCB-lite" if is_lite else "HI-LCB")
    order = np.random.default_rng(7).permutation(400)
    count, right = [0] * n_bins, [0] * n_bins
    loss = 0.0
    for t, at in enumerate(order, start=1):
        here = min(int(samples.p1[at] * n_bins), n_bins - 1)
        bounds = [
            right[b] / count[b] - math.sqrt(alpha * math.log(t) / count[b])
            for b in ([here] if is_lite else range(here + 1))
            if count[b]
        ]
        if 1 - max([0.0, *bounds]) >= beta:
            loss += beta
            count[here] += 1
            right[here] += samples.agrees[at] == RIGHT
        else:
            loss += samples.local[at] != RIGHT
    assert found.loss == pytest.approx(loss / 400)
    assert found.regret == pytest.approx(loss - 400 * found.best_loss)


def test_regret_grows_as_a_logarithm() -> None:
    rng = np.random.default_rng(8)
    n = 20_000
    sure = rng.random(n) < 0.5  # confidence 0.95, right for 98 %; else 0.45, right for 30 %
    p1 = np.where(sure, 0.95, 0.45)
    local = (rng.random(n) < np.where(sure, 0.98, 0.30)).astype(np.int8)
    samples = LabelledSamples(p1, None, local, np.ones(n, np.int8), local)
    for found in replay(samples, 0.4, n_orders=10):
        assert found.best_threshold == 0.95
        places = [max(at for at in found.steps if at <= n / 4**k) for k in (3, 2, 1, 0)]
        regret = dict(zip(found.steps, found.regrets, strict=True))
        first, *_, last = np.diff([regret[at] for at in places])
        # Each four times as many samples add the same. √T: the last step is four times the first
        # one, T^0.3: 4^0.6 = 2.3 times.
        assert 0 < last < 1.5 * first


def test_a_replay_without_remote_answers_is_refused() -> None:
    arrays = made_up(50)
    arrays["remote"][7] = -1
    samples = make_samples(arrays, "made up")
    with pytest.raises(UsageError, match="a remote answer of every sample"):
        replay(samples, 0.3)


def test_a_replay_of_a_part_is_of_samples_drawn_at_random() -> None:
    arrays = made_up(2000)
    order = np.argsort(arrays["p1"])
    samples = make_samples({name: each[order] for name, each in arrays.items()}, "made up")
    asked = (Goal(minimise="cost", offload_cost=0.3), HiSettings(n_replayed=400))
    found, _ = analyse(samples, [exact("")], *asked).replay
    # The best loss of all is 0.17; of the 400 least confident samples it is 0.29.
    assert found.n == 400
    assert found.best_loss == pytest.approx(0.17, abs=0.03)
    with pytest.raises(UsageError, match="a replay of 100,001 samples takes too long"):
        analyse(samples, [exact("")], asked[0], HiSettings(n_replayed=100_001))
