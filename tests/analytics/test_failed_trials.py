"""Kernels that could not be measured: in no roof, named in the page, and refused if impossible."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.limits import check_trial
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.roofs.rates import trial_rates, unused_trials
from mansard.analytics.pages.report.summary import summary, warnings
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.modes import unstable_table
from mansard.core.errors import InputError
from mansard.core.records import ABOVE_LIMIT, Trial
from tests.analytics.factory import fma_trials, manifest, stream_trials, trial, write_run

REFUSED = "NVRTC does not compile fma_fp32: <error> & more"


def failed(made: Trial, failure: str = REFUSED) -> Trial:
    """The row of the same trial that could not be measured."""
    lacking = ("repetitions_per_sample", "stability_interval", "energy", "clock_hz")
    kept = {name: why for name, why in made.unknown.items() if name != "failure"}
    return replace(
        made,
        repetitions_per_sample=None,
        seconds_s=(),
        block=(),
        rejected_s=(),
        rejected_reason=(),
        stability="unstable",
        stability_interval=None,
        energy=None,
        clock_hz=None,
        failure=failure,
        unknown=kept | dict.fromkeys(lacking, f"it could not be measured: {failure}"),
    )


def above_limit(made: Trial) -> Trial:
    """The row of the same trial with a result that cannot be."""
    return replace(
        failed(made, f"{ABOVE_LIMIT}: fma fp32 reached 1.997 of what 16 SMs can do"),
        rejected_s=made.seconds_s,
        rejected_reason=(ABOVE_LIMIT,) * len(made.seconds_s),
    )


def results(runs: Path, trials: Sequence[Trial]) -> Results:
    write_run(runs / "r", manifest("r", n_trials=len(trials)), trials)
    return compute(ingest(runs))


def test_failed_trials_have_no_rate_and_their_reason_is_named(tmp_path: Path) -> None:
    good, bad = [*fma_trials("r"), *stream_trials("r")], trial("r", "fma", 9e9, fma_per_element=7)
    found = results(tmp_path, [*good, failed(bad)])
    assert len(trial_rates(found.dataset)) == len(good)
    (line,) = unused_trials(found.dataset)
    assert line == f"2c: fma fp32, 7 per element: it could not be measured: {REFUSED}"
    assert not unstable_table(found).rows
    (mode,) = summary(found.dataset, found).modes
    assert (mode.n_trials, mode.n_trials_failed) == (len(good), 1)
    (note,) = [note for note in summary(found.dataset, found).notes if "could not" in note]
    assert note == (
        f"2c: 1 of {len(good) + 1} trials of kernels could not be measured (the same command tries "
        f"again): fma fp32, 7 per element: {REFUSED}"
    )
    page = render(found)
    assert "NVRTC does not compile fma_fp32: &lt;error&gt; &amp; more" in page
    assert warnings(found) == ()


def test_the_first_reasons_are_named_and_the_others_counted(tmp_path: Path) -> None:
    bad = [failed(each, f"reason {n}") for n, each in enumerate(fma_trials("r")[:4])]
    found = results(tmp_path, [*bad, *stream_trials("r")])
    (note,) = [note for note in summary(found.dataset, found).notes if "could not" in note]
    assert "4 of" in note
    assert note.count("reason ") == 2
    assert note.endswith("; 2 other reasons")


def test_a_stalled_kernel_that_failed_is_named(tmp_path: Path) -> None:
    one = failed(trial("r", "read", 1e9, working_set_bytes=3 * 1024))
    stalled = replace(one, kernel="stalled", family="stalled")
    found = results(tmp_path, [stalled, *stream_trials("r")])
    assert [line for line in unused_trials(found.dataset) if "stalled" in line]


def test_a_run_of_failures_alone_has_a_page(tmp_path: Path) -> None:
    found = results(tmp_path, [failed(each) for each in [*fma_trials("r"), *stream_trials("r")]])
    (mode,) = summary(found.dataset, found).modes
    assert mode.n_trials == 0
    assert mode.n_trials_failed == len(found.dataset.trials)
    assert all(each.value is None for each in (*mode.peaks, *mode.bandwidths))
    assert "Trials without a rate" in render(found)


def test_a_result_above_its_limit_is_a_warning_and_nothing_is_recommended(tmp_path: Path) -> None:
    odd = above_limit(trial("r", "fma", 256e9, fma_per_element=7))
    found = results(tmp_path, [*fma_trials("r"), *stream_trials("r"), odd])
    (finding,) = [each for each in found.findings if each.is_serious]
    assert (finding.subject, finding.basis) == ("limits", "roofs")
    assert finding.reason == (
        "in 2c, fma fp32, 7 per element ran faster than the hardware can; a count or a clock of "
        "this run is wrong: report this with the run's folder"
    )
    assert warnings(found) == (f"Example: {finding.reason}",)
    assert "ran faster than the hardware can; a count or a clock" in render(found)
    (roof,) = found.roofs
    assert odd.trial_id not in roof.peak("fp32").trial_ids
    assert roof.peak("fp32").value == pytest.approx(128e9)


def test_its_samples_are_not_counted_as_lost(tmp_path: Path) -> None:
    # 21 samples of each trial, all of them above the limit: none of them was disturbed.
    odd = [above_limit(each) for each in fma_trials("r")]
    found = results(tmp_path, [*odd, *stream_trials("r")])
    assert not [each for each in found.findings if each.subject == "samples"]


def test_a_failure_with_times_is_refused() -> None:
    made = trial("r", "read", 1e9)
    unknown = {name: why for name, why in made.unknown.items() if name != "failure"}
    with pytest.raises(InputError, match="it has times and a failure"):
        check_trial(replace(made, failure="it broke", unknown=unknown), "trials.jsonl")


def test_of_two_copies_the_one_that_was_measured_again_counts(tmp_path: Path) -> None:
    good = [*fma_trials("r"), *stream_trials("r")]
    run = manifest("r", n_trials=len(good))
    write_run(tmp_path / "early" / "r", run, [failed(good[0]), *good[1:]])
    write_run(tmp_path / "late" / "r", run, good)
    for order in (("early", "late"), ("late", "early")):
        dataset = open_runs([tmp_path / name for name in order])
        assert dataset.trials["failure"].count() == 0
        assert len(dataset.trials) == len(good)
