"""What the meters said: power per mode and kernel family, where energy was measured."""

from __future__ import annotations

import msgspec
import numpy as np

from mansard.analytics.names import shown
from mansard.analytics.page_parts import Table
from mansard.analytics.quantities import UNKNOWN, quantity
from mansard.analytics.results import Results
from mansard.core.records import RailEnergy


def power_table(results: Results) -> Table:
    """Median power over the trials of a family, per rail; empty where nothing was metered.

    The power of a trial is its energy over its window, watts; rails keep the names
    that the board gives them.
    """
    labels = results.labels()
    idle = dict(results.dataset.runs.select("run_id", "idle_power_w").iter_rows())
    powers: dict[tuple[str, str, str], list[float]] = {}
    metered = results.dataset.trials.filter(results.dataset.trials["energy_json"].is_not_null())
    for row in metered.sort("run_id", "trial_id").iter_rows(named=True):
        for rail in msgspec.json.decode(row["energy_json"], type=tuple[RailEnergy, ...]):
            if rail.window_s > 0:
                key = (row["run_id"], row["family"], rail.rail)
                powers.setdefault(key, []).append(rail.energy_j / rail.window_s)
    rows = [
        [
            shown(labels[run_id]),
            shown(rail),
            family,
            quantity(float(np.median(found)), "W"),
            str(len(found)),
            quantity(idle[run_id], "W") if idle[run_id] is not None else UNKNOWN,
        ]
        for (run_id, family, rail), found in sorted(powers.items())
    ]
    return Table(
        caption="Median power of the trials",
        columns=("Mode", "Rail", "Kernels", "Power", "Trials", "Idle"),
        rows=rows,
        numeric=frozenset({3, 4, 5}),
    )
