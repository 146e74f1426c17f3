"""Every threshold of a million samples: the time, and the same by counting sample by sample.

    PYTHONPATH=. python benchmarks/hierarchical.py [SAMPLES]

Prints the seconds of reading (made-up arrays), of the sweep with accuracy, share, latency and
energy at every threshold, and of the whole answer. Exactness: against counting at 200 thresholds
of all samples, and at every threshold of 2,000.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import numpy as np

from mansard.analytics.decisions.offload.analysis import analyse
from mansard.analytics.decisions.offload.costs import mode_costs
from mansard.analytics.decisions.offload.records import Goal, HiSettings, make_amount
from mansard.analytics.decisions.offload.samples import RIGHT, LabelledSamples, make_samples
from mansard.analytics.decisions.offload.thresholds import Sweep, sweep
from tests.analytics.hierarchical_samples import made_up

REPEATS = 5


def check(samples: LabelledSamples, one: Sweep, places: Iterable[int]) -> int:
    """How many of these thresholds do not count as sample by sample."""
    n_wrong = 0
    for at in places:
        is_offloaded = samples.p1 < one.threshold[at]
        right = np.where(is_offloaded, samples.remote == RIGHT, samples.local == RIGHT)
        counted = (int(is_offloaded.sum()), int(right.sum()))
        n_wrong += counted != (int(one.n_offloaded[at]), int(one.n_right[at]))
    return n_wrong


def main(n: int) -> None:
    """Print the times and the checks of ``n`` samples."""
    arrays = made_up(n)
    start = time.perf_counter()
    samples = make_samples(arrays, "made up")
    print(f"{n:,} samples checked: {time.perf_counter() - start:.3f} s")
    times_s = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        one = sweep(samples, samples.p1)
        curve = (one.accuracy_least, 1e-3 + one.share * 1e-2, 5e-3 + one.share * 2e-2)
        times_s.append(time.perf_counter() - start)
    spread = f"{min(times_s):.3f} to {max(times_s):.3f} s"
    print(f"accuracy, latency, energy and share at {len(curve[0]):,} thresholds: {spread}")
    places = np.linspace(0, len(one.threshold) - 1, 200).astype(int)
    print(f"wrong at 200 thresholds of all samples: {check(samples, one, places)}")
    few = make_samples(made_up(2000), "made up")
    of_few = sweep(few, few.p1)
    print(f"wrong at every threshold of 2,000: {check(few, of_few, range(len(of_few.threshold)))}")
    amounts = {
        name: make_amount(value, value, value)
        for name, value in (("local_s", 1e-3), ("decision_s", 1e-6), ("offload_s", 1e-2))
    }
    start = time.perf_counter()
    analyse(samples, [mode_costs("", amounts)], Goal(min_accuracy=0.9), HiSettings())
    print(f"the whole answer, with intervals: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
