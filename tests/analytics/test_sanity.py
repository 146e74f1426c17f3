"""What cannot be true is found, and healthy measurements have no finding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import (
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_SCHEMA,
)
from mansard.analytics.models.energy.fit import Coefficient, EnergyFit
from mansard.analytics.models.predict.models import find_models
from mansard.analytics.models.sanity.checks import find_faults, time_findings
from mansard.analytics.models.sanity.finding import Finding, refusals
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import Results, compute
from mansard.core.power_mode import nominal_w
from mansard.core.records import Trial
from tests.analytics.board_runs import write_board
from tests.analytics.factory import (
    MIB,
    ONE_CORE,
    TWO_CORES,
    Ceilings,
    fma_trials,
    manifest,
    stream_trials,
    trial,
    write_run,
    write_two_modes,
)
from tests.analytics.gpu_factory import board, gpu_manifest, gpu_trial, mode_30w
from tests.analytics.gpu_runs import Run
from tests.analytics.score_factory import layer, score, write_scores

AGAIN = "the slower mode throttled, or one of the two is wrong: measure both again"
WILD = (0.3, 0.5, 0.9, 1.0, 1.1, 1.6, 2.0)  # of seven blocks, an interval of 0.5 to 1.6


def of_run(runs: Path, trials: Sequence[Trial]) -> tuple[Finding, ...]:
    write_run(runs / "r", manifest("r", 2, len(trials)), trials)
    return find_faults(find_models(ingest(runs)))


def only(found: Sequence[Finding], subject: str) -> Finding:
    (one,) = [each for each in found if each.subject == subject]
    return one


def test_healthy_runs_have_no_finding(tmp_path: Path) -> None:
    assert find_faults(find_models(ingest(write_two_modes(tmp_path / "cpu")))) == ()
    assert find_faults(find_models(ingest(write_board(tmp_path / "board")))) == ()


def test_most_samples_rejected(tmp_path: Path) -> None:
    # 27 accepted of each trial and 30 rejected: 30 / 57 = 53 %.
    trials = [
        replace(each, rejected_s=(0.5,) * 30, rejected_reason=("1 context switch",) * 30)
        for each in [*fma_trials("r"), *stream_trials("r")]
    ]
    (found,) = of_run(tmp_path, trials)
    assert found.is_serious
    assert found.text == (
        "Example: in 2c, 53 % of the samples were rejected; measure again with nothing else running"
    )


def test_most_trials_disturbed(tmp_path: Path) -> None:
    calm = [*fma_trials("r"), *stream_trials("r")]
    odd = [
        trial("r", "read", 16e9, working_set_bytes=size * MIB, disturbances=("throttled once",))
        for size in range(200, 200 + len(calm) + 1)
    ]
    found = only(of_run(tmp_path, [*calm, *odd]), "samples")
    assert f"{len(odd)} of {len(calm) + len(odd)} trials were disturbed" in found.what


def test_ceilings_that_never_settled(tmp_path: Path) -> None:
    noisy = [replace(each, stability="unstable") for each in stream_trials("r")]
    wild = trial(
        "r", "fma", 128e9, fma_per_element=64, spread=WILD, n_per_block=9, stability="unstable"
    )
    rough, mild = of_run(tmp_path, [wild, *noisy])
    assert rough.is_serious
    assert "in 2c, the fp32 peak is anywhere between" in rough.what
    assert "DRAM" not in rough.what  # what only missed its stopping rule is a note
    assert not mild.is_serious
    assert mild.reason == "in 2c, no trial of DRAM settled; measure again with nothing else running"


def test_two_blocks_are_no_ceiling(tmp_path: Path) -> None:
    few = trial("r", "fma", 128e9, fma_per_element=64, spread=(1.0, 1.01))
    found = only(of_run(tmp_path, [few, *stream_trials("r")]), "ceilings")
    assert "the fp32 peak rests on 2 blocks of samples" in found.what


def test_a_cache_slower_than_memory(tmp_path: Path) -> None:
    levels = Ceilings(levels={"L1": 256e9, "L2": 12e9, "L3": 64e9, "DRAM": 16e9})
    found = only(of_run(tmp_path, stream_trials("r", levels)), "levels")
    assert found.is_serious
    assert found.reason.startswith(
        "in 2c, L2 (12.0 GB/s by read) is slower than L3 (64.0 GB/s by read)"
    )


def test_levels_of_a_simulated_board_are_not_those_of_its_caches(tmp_path: Path) -> None:
    # Its kernels run in this machine's caches, which have other sizes than the board's.
    trials = stream_trials("r", Ceilings(levels={"L2": 12e9, "L3": 64e9, "DRAM": 11e9}))
    made_up = manifest("r", 2, len(trials), replace(board(), is_simulated=True))
    write_run(tmp_path / "r", made_up, trials)
    found = find_faults(find_models(ingest(tmp_path)))
    assert [each for each in found if each.subject == "levels"] == []


def test_levels_whose_intervals_overlap_are_in_order(tmp_path: Path) -> None:
    wide = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
    trials = [
        trial("r", "read", 15e9, working_set_bytes=8 * MIB, spread=wide),
        trial("r", "read", 16e9, working_set_bytes=128 * MIB, spread=wide),
    ]
    assert [each for each in of_run(tmp_path, trials) if each.subject == "levels"] == []


def test_a_kernel_in_no_roof_is_a_note(tmp_path: Path) -> None:
    trials = [
        trial("r", "read", 42.4e9, working_set_bytes=128 * MIB),
        trial("r", "copy", 94.9e9, working_set_bytes=128 * MIB, stability="unstable"),
    ]
    found = only(of_run(tmp_path, trials), "kernels")
    assert not found.is_serious
    assert found.reason == (
        "in 2c, DRAM at 94.9 GB/s by copy makes no roof: it did not settle as others did; "
        "the others make the roof"
    )


def test_more_cores_that_are_slower(tmp_path: Path) -> None:
    # One core measured at twice what both together did.
    for name, ceilings, cpus in (("run-1c", TWO_CORES, (0,)), ("run-2c", ONE_CORE, (0, 1))):
        trials = [*fma_trials(name, ceilings, cpus), *stream_trials(name, ceilings, cpus)]
        write_run(tmp_path / name, manifest(name, len(cpus), len(trials)), trials)
    found, mild = [x for x in find_faults(find_models(ingest(tmp_path))) if x.subject == "modes"]
    assert (found.is_serious, mild.is_serious) == (True, False)
    assert found.reason == (
        "the fp32 peak is 2.00 times lower in 2c than in 1c (64.0 GFLOP/s against 128 GFLOP/s), "
        f"though no clock of 2c is lower; the worst of 2 ceilings in 1 mode; {AGAIN}"
    )
    assert "the bandwidth of DRAM is 1.25 times lower in 2c than in 1c" in mild.what


def test_memory_faster_than_its_bus(tmp_path: Path) -> None:
    # The port of an Orin's GPU moves 204.5 bytes × 612 MHz = 125.154 GB/s.
    def found(rate: float) -> list[Finding]:
        run = Run("read", "stream", rate, working_set_bytes=64 * MIB)
        folder = tmp_path / f"{rate:.0f}"
        write_run(folder / "r", gpu_manifest("r", 1), [gpu_trial("r", run)])
        return [x for x in find_faults(find_models(ingest(folder))) if x.subject == "limits"]

    assert found(150e9) == []  # 1.2 of it: a miscount that the table of kernels marks
    (one,) = found(250e9)
    assert one.is_serious
    assert one.reason == (
        "in 30W, the bandwidth of DRAM of 250 GB/s is above the 125 GB/s that the hardware can "
        "do; the clock or the unit is wrong: measure again"
    )


@pytest.mark.parametrize("is_simulated", [False, True])
def test_a_cpu_faster_than_its_modules_memory(tmp_path: Path, is_simulated: bool) -> None:
    # 3199 MHz × 2 × 256 bit / 8 = 204.7 GB/s on an AGX Orin; a made-up one runs on this machine.
    on = replace(board(), is_simulated=is_simulated)
    trials = [trial("r", "read", 300e9, working_set_bytes=128 * MIB, cpus=(0, 1))]
    run = replace(manifest("r", 2, 1, on), mode_read_back=mode_30w())
    write_run(tmp_path / "r", run, trials)
    limits = [x for x in find_faults(find_models(ingest(tmp_path))) if x.subject == "limits"]
    assert [each.is_serious for each in limits] == ([] if is_simulated else [True])


def energy_fit(residual: float, l2_j: float, dram_j: float) -> EnergyFit:
    def cost(value: float) -> Coefficient:
        return Coefficient(value=value, low=0.9 * value, high=1.1 * value)

    return EnergyFit(
        flop_j={"fp32": cost(1e-12)},
        byte_j={"DRAM": cost(dram_j), "L2": cost(l2_j)},
        constant_w=cost(9.0),
        residuals=(-residual, residual, 0.01),
        n_points=3,
        n_idle=1,
        n_stalled=0,
        missing=(),
    )


@pytest.mark.parametrize(
    ("fit", "what"),
    [
        (energy_fit(0.02, 25e-12, 80e-12), None),
        (energy_fit(0.5, 25e-12, 80e-12), "the energy fit is 50 % off its own points"),
        (energy_fit(0.02, 80e-12, 25e-12), "a byte from L2 costs more than one from DRAM"),
        (energy_fit(0.02, 80e-12, 70e-12), None),  # 72 to 88 and 63 to 77 overlap
    ],
)
def test_energies_that_contradict_themselves(
    tmp_path: Path, fit: EnergyFit, what: str | None
) -> None:
    models = find_models(ingest(write_two_modes(tmp_path)))
    found = find_faults(dataclasses.replace(models, energies={"run-1c": fit}))
    if what is None:
        assert found == ()
    else:
        assert only(found, "energy").reason.startswith(f"in 1c, {what}")
        # The times are not in doubt: what asks for no energy is answered.
        predictions = pl.DataFrame(
            [{"device": "Example", "network": "net", "score_id": "s"}],
            schema={name: PREDICTION_SCHEMA[name] for name in ("device", "network", "score_id")},
        )
        assert refusals(found, predictions, ["s"], needs_energy=False) == {}
        assert refusals(found, predictions, [], needs_energy=True) == {}  # by measured times
        refused = refusals(found, predictions, ["s"], needs_energy=True)
        assert list(refused) == [("Example", "net")]


def results_of(runs: Path) -> Results:
    write_scores(runs, [score("net", [layer(0, 10**9, 10**8)])])
    return compute(ingest(runs))


def test_nothing_is_recommended_and_the_page_says_why_at_its_top(tmp_path: Path) -> None:
    levels = Ceilings(levels={"L1": 256e9, "L2": 12e9, "L3": 64e9, "DRAM": 16e9})
    trials = [*fma_trials("r"), *stream_trials("r", levels)]
    write_run(tmp_path / "r", manifest("r", 2, len(trials)), trials)
    results = results_of(tmp_path)
    (answer,) = results.recommendations
    assert (answer.verdict, answer.choice) == ("unknown", None)
    assert answer.sentence.startswith("Nothing can be recommended for net: in 2c, L2 (12.0 GB/s")
    page = render(results)
    # One line at the top, before the sentences and the roofs; the numbers stand at the notices.
    top, _, rest = page.partition('<dl class="facts">')
    assert 'class="warning"' in top
    assert "1 check failed" in top
    assert "L2 (12.0 GB/s by read)" not in top
    assert "L2 (12.0 GB/s by read)" in rest.partition('<h3 id="notices">')[2]
    assert "No recommendation yet" not in page
    assert "takes the least" not in page


def test_a_healthy_page_has_no_banner(tmp_path: Path) -> None:
    results = results_of(write_two_modes(tmp_path))
    assert all(each.choice is not None for each in results.recommendations)
    assert 'class="warning"' not in render(results)


MODES: Mapping[str, tuple[float | None, ...]] = {  # GPU, memory and CPU clock in MHz, SMs
    "7W": (408.0, 2133.0, 960.0, 4),
    "15W": (612.0, 2133.0, 1190.0, 8),
    "MAXN": (1020.0, 3199.0, 1728.0, 8),
}


def frames(
    times_s: Mapping[str, float], modes: Mapping[str, tuple[float | None, ...]] = MODES
) -> tuple[pl.DataFrame, pl.DataFrame]:
    names = ("gpu_hz", "memory_hz", "cpu_hz", "n_sms")
    rows = [
        {"device": "Board", "mode": mode, **dict(zip(names, values, strict=True))}
        for mode, values in modes.items()
    ]
    seen = [
        {
            "device": "Board",
            "mode": mode,
            "network": "net",
            "batch": 1,
            "precision": "fp16",
            "phase": "inference",
            "latency_s": time_s,
            "source": "published",
        }
        for mode, time_s in times_s.items()
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA), pl.DataFrame(seen, schema=OBSERVATION_SCHEMA)


def test_a_mode_eight_times_slower_than_a_lower_one() -> None:
    (found,) = time_findings(*frames({"7W": 0.2, "15W": 0.1, "MAXN": 0.8}))
    assert found.is_serious
    assert list(found.networks) == ["net"]
    assert found.reason == (
        "net took 8.00 times as long in MAXN as in 15W (800 ms against 100 ms), though no clock "
        f"of MAXN is lower; {AGAIN}"
    )


def test_times_that_scatter_over_each_other_are_in_order() -> None:
    # exp(1.96 · 0.2) = 1.48: 100 ms may be 148, and 160 ms may be 108.
    modes, seen = frames({"15W": 0.1, "MAXN": 0.16})
    assert [each.is_serious for each in time_findings(modes, seen)] == [True]
    scattered = seen.with_columns(latency_deviation=pl.lit(0.2))
    assert list(time_findings(modes, scattered)) == []


def test_a_mode_that_throttles_a_little_is_a_note() -> None:
    # Recorded: a small language model takes 11.2 ms in MAXN of an Orin Nano and 9.8 ms in 25W.
    (found,) = time_findings(*frames({"15W": 9.82e-3, "MAXN": 11.18e-3}))
    assert not found.is_serious
    assert list(time_findings(*frames({"15W": 10e-3, "MAXN": 10.9e-3}))) == []


def test_twice_as_slow_is_serious_only_where_no_other_clock_can_be_the_reason() -> None:
    times_s = {"15W": 0.1, "MAXN": 0.2}
    (sure,) = time_findings(*frames(times_s))
    without_cpu = {mode: (gpu, memory, None, sms) for mode, (gpu, memory, _, sms) in MODES.items()}
    (unsure,) = time_findings(*frames(times_s, without_cpu))
    assert (sure.is_serious, unsure.is_serious) == (True, False)
    assert "no clock of MAXN that is known is lower" in unsure.reason


def test_a_lower_clock_anywhere_is_reason_enough() -> None:
    # AGX Orin's 50W runs its CPUs at 1.50 GHz, its 30W at 1.73 GHz.
    modes = {"30W": (612.0, 3199.0, 1728.0, 8), "50W": (828.0, 3199.0, 1497.0, 16)}
    assert list(time_findings(*frames({"30W": 0.1, "50W": 0.9}, modes))) == []


def test_modes_known_by_their_names_alone() -> None:
    bare: dict[str, tuple[float | None, ...]] = dict.fromkeys(MODES, (None,) * 4)
    (found,) = time_findings(*frames({"15W": 0.1, "MAXN": 0.8}, bare))
    assert found.is_serious
    assert "though by its name MAXN has more power" in found.what
    assert list(time_findings(*frames({"15W": 0.8, "MAXN": 0.1}, bare))) == []


@pytest.mark.parametrize(
    ("mode", "watts"),
    [("15W", 15.0), ("MODE_30W_ALL", 30.0), ("MAXN_SUPER", float("inf")), ("maxn", float("inf"))],
)
def test_nominal_power(mode: str, watts: float) -> None:
    assert nominal_w(mode) == watts


def test_other_names_have_no_nominal_power() -> None:
    assert all(nominal_w(name) != nominal_w(name) for name in ("MAXQ", "gpu15W", "2c", "W15"))


hz = st.sampled_from([0.5e9, 1e9, 2e9])
settings = st.lists(st.tuples(hz, hz, hz, st.sampled_from([4, 8])), min_size=2, max_size=6)


@given(settings, st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_any_network_that_obeys_physics_has_no_finding(
    modes: list[tuple[float, float, float, int]], work: float, traffic: float, launch: float
) -> None:
    """T = w/(n f) + q/f_m + l/f_c never rises with a clock or with SMs."""
    named = {f"m{at}": values for at, values in enumerate(modes)}
    times_s = {
        name: 1e-3 + work * 1e9 / (sms * gpu) + traffic * 1e9 / memory + launch * 1e9 / cpu
        for name, (gpu, memory, cpu, sms) in named.items()
    }
    assert list(time_findings(*frames(times_s, named))) == []
