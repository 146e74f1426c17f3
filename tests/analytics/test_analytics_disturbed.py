"""Disturbed trials are kept and marked, and in no ceiling, no power and no energy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.energy import power_table
from mansard.core.records import Spread, Trial
from tests.analytics.factory import (
    MIB,
    calm,
    fma_trials,
    manifest,
    stream_trials,
    trial,
    window,
    write_run,
)
from tests.analytics.score_factory import layer, score, write_scores

FELL = "the GPU clock fell to 918 MHz from 1300.5 MHz"


def results(runs: Path, trials: Sequence[Trial]) -> Results:
    write_run(runs / "r", manifest("r", n_trials=len(trials), total=("VDD_IN",)), trials)
    return compute(ingest(runs))


def test_a_disturbed_trial_is_in_no_ceiling(tmp_path: Path) -> None:
    lucky = trial("r", "fma", 200e9, fma_per_element=96, disturbances=(FELL,))
    (roof,) = results(tmp_path, [*fma_trials("r"), lucky]).roofs
    peak = roof.peak("fp32")
    assert peak.value == pytest.approx(128e9)
    assert peak.n_disturbed == 1
    assert lucky.trial_id not in peak.trial_ids
    assert peak.stable is True


def test_where_all_were_disturbed_the_ceiling_is_unknown_with_the_commonest_reason(
    tmp_path: Path,
) -> None:
    trials = [
        trial("r", "fma", 128e9, fma_per_element=length, disturbances=reasons)
        for length, reasons in ((64, (FELL,)), (128, (FELL, "throttled once")), (256, (FELL,)))
    ]
    sets = [trial("r", "read", 16e9, working_set_bytes=128 * MIB, disturbances=("throttled once",))]
    (roof,) = results(tmp_path, [*trials, *sets]).roofs
    assert roof.peak("fp32").value is None
    assert roof.peak("fp32").unknown["value"] == f"all 3 trials were disturbed: {FELL}"
    dram = roof.bandwidth("DRAM")
    assert dram.value is None
    # read was disturbed, the other kernels were not run: the former says more
    assert dram.unknown["value"] == "its only trial was disturbed: throttled once"


def test_networks_say_why_they_have_no_time(tmp_path: Path) -> None:
    disturbed = trial("r", "fma", 128e9, fma_per_element=64, disturbances=(FELL,))
    write_scores(tmp_path, [score("net", [layer(0, 10**9, 10**6)])])
    found = results(tmp_path, [disturbed, *stream_trials("r")])
    (network,) = summary(found.dataset, found).networks
    assert network.time_s is None
    assert network.unknown["time_s"] == f"no fp32 peak: its only trial was disturbed: {FELL}"


def test_the_page_and_the_summary_count_and_list_them(tmp_path: Path) -> None:
    odd = trial("r", "fma", 90e9, fma_per_element=96, disturbances=(FELL, "over-current event"))
    found = results(tmp_path, [*fma_trials("r"), *stream_trials("r"), odd])
    (mode,) = summary(found.dataset, found).modes
    assert (mode.n_trials_disturbed, mode.n_trials_unstable) == (1, 0)
    page = render(found).replace("\u00a0", " ")
    assert "Trials that were disturbed" in page
    assert f"{FELL}; over-current event" in page
    assert "1 disturbed left out" in page
    assert "Crosses (1) are disturbed trials" in page
    assert f'"disturbed, in no ceiling: {FELL}; over-current event"' in page  # in the chart


def test_power_leaves_disturbed_trials_out(tmp_path: Path) -> None:
    def metered(length: int, power_w: float, *reasons: str) -> Trial:
        windows = (window({"VDD_IN": power_w}, ("VDD_IN",), repetitions=10),) * 2
        return trial("r", "fma", 1e9, fma_per_element=length, energy=windows, disturbances=reasons)

    table = power_table(
        results(tmp_path, [metered(64, 10.0), metered(128, 12.0), metered(256, 40.0, FELL)])
    )
    # the median of 10 and 12; 40 W were drawn while something else ran
    assert [row[3].replace("\u00a0", " ") for row in table.rows] == ["11.00 W", "11.00 W"]
    assert [row[4] for row in table.rows] == ["2", "2"]


def test_conditions_are_columns(tmp_path: Path) -> None:
    spread = Spread(before=1.3e9, low=0.9e9, high=1.3e9, after=1.2e9)
    seen = calm(gpu_clock_hz=spread, n_throttle_events=2, gpu_processes=("python3 (7)",))
    row = trial("r", "read", 1e9, conditions=seen, disturbances=(FELL,))
    (found,) = results(tmp_path, [row]).dataset.trials.iter_rows(named=True)
    assert found["gpu_clock_before_hz"] == 1.3e9
    assert found["gpu_clock_low_hz"] == 0.9e9
    assert found["gpu_clock_after_hz"] == 1.2e9
    assert found["cpu_clock_low_hz"] is None
    assert found["n_throttle_events"] == 2
    assert found["gpu_processes"] == ["python3 (7)"]
    assert found["disturbances"] == [FELL]
    assert "this machine does not report it" in found["conditions_unknown_json"]
