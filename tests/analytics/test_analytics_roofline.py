from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.roofs.roofline import Roofline, rooflines
from mansard.core.records import MachineIdentity, Trial
from tests.analytics.factory import (
    MIB,
    ONE_CORE,
    TWO_CORES,
    Ceilings,
    fma_trials,
    machine,
    manifest,
    stream_trials,
    trial,
    write_run,
    write_two_modes,
)


def one_run(
    runs: Path, trials: Sequence[Trial], on: MachineIdentity | None = None, n_cpus: int = 2
) -> Roofline:
    write_run(runs / "r", manifest("r", n_cpus, len(trials), on), trials)
    (found,) = rooflines(ingest(runs))
    return found


def test_ceilings_are_those_the_trials_were_made_from(tmp_path: Path) -> None:
    one, two = rooflines(ingest(write_two_modes(tmp_path)))
    assert (one.label, two.label) == ("1c", "2c")
    for roof, made in ((one, ONE_CORE), (two, TWO_CORES)):
        for precision, value in made.peaks.items():
            assert roof.peak(precision).value == pytest.approx(value, rel=1e-9)
        for level, value in made.levels.items():
            assert roof.bandwidth(level).value == pytest.approx(value, rel=1e-9)
            assert roof.bandwidth(level).kernel == "read"  # the fastest bounds every mix


def test_every_kernel_keeps_its_own_ceiling(tmp_path: Path) -> None:
    roof = one_run(tmp_path, stream_trials("r"))
    dram = {c.kernel: c.value for c in roof.bandwidths if c.subject == "DRAM"}
    # 16 GB/s times 1, 0.8, 0.85 and 0.9
    assert dram == {
        "read": pytest.approx(16e9),
        "copy": pytest.approx(12.8e9),
        "scale": pytest.approx(13.6e9),
        "triad": pytest.approx(14.4e9),
    }


def test_ridge_is_peak_over_bandwidth(tmp_path: Path) -> None:
    roof = one_run(tmp_path, [*fma_trials("r"), *stream_trials("r")])
    ridge = roof.ridge("fp32")
    assert ridge is not None
    assert ridge.value == pytest.approx(8.0)  # 128 GFLOP/s / 16 GB/s
    found = roof.ridge("fp64", "L2")
    assert found is not None
    assert found.value == pytest.approx(0.5)  # 64 / 128
    peak, dram = roof.peak("fp32"), roof.bandwidth("DRAM")
    assert peak.low
    assert dram.high
    assert ridge.low == peak.low / dram.high  # the lowest roof over the steepest slope


def test_short_chains_do_not_count(tmp_path: Path) -> None:
    # A chain of 32 that ran faster than all others is an artefact, not the plateau.
    trials = [*fma_trials("r"), trial("r", "fma", 500e9, fma_per_element=33)]
    assert one_run(tmp_path, trials).peak("fp32").value == pytest.approx(128e9)


def test_slow_points_are_left_out_of_the_plateau(tmp_path: Path) -> None:
    slow = trial("r", "fma", 90e9, fma_per_element=192)
    roof = one_run(tmp_path, [*fma_trials("r"), slow])
    assert roof.peak("fp32").value == pytest.approx(128e9)
    assert slow.trial_id not in roof.peak("fp32").trial_ids


def test_a_noisy_kernel_does_not_make_the_roof(tmp_path: Path) -> None:
    # Triad's median is 20 GB/s, but its blocks run from half to twice that; copy's 16 GB/s hold.
    wild = (0.5, 0.6, 0.9, 1.0, 1.1, 1.6, 2.0)
    noisy = trial("r", "triad", 20e9, working_set_bytes=128 * MIB, spread=wild)
    steady = trial("r", "copy", 16e9, working_set_bytes=128 * MIB)
    roof = one_run(tmp_path, [noisy, steady]).bandwidth("DRAM")
    assert roof.kernel == "copy"
    assert roof.value == pytest.approx(16e9)


def test_missing_main_memory_is_unknown_with_a_reason(tmp_path: Path) -> None:
    caches_only = Ceilings(levels={"L1": 256e9, "L2": 128e9})
    roof = one_run(tmp_path, [*fma_trials("r"), *stream_trials("r", caches_only)])
    dram = roof.bandwidth("DRAM")
    assert dram.value is None
    assert "100663296 bytes" in dram.unknown["value"]  # 3 × 32 MiB
    assert roof.ridge("fp32") is None
    assert roof.ridge("fp32", "L1") is not None


def test_main_memory_from_twice_the_last_cache_where_there_is_no_more(tmp_path: Path) -> None:
    trials = [trial("r", "read", 16e9, working_set_bytes=size * MIB) for size in (65, 90)]
    assert one_run(tmp_path, trials).bandwidth("DRAM").value == pytest.approx(16e9)


def test_a_set_just_above_the_last_cache_belongs_nowhere(tmp_path: Path) -> None:
    # 40 MiB: above 0.75 × 32 MiB and below 2 × 32 MiB
    roof = one_run(tmp_path, [trial("r", "read", 40e9, working_set_bytes=40 * MIB)])
    assert all(ceiling.value is None for ceiling in roof.bandwidths)


def test_a_level_too_small_beside_the_one_below_says_so(tmp_path: Path) -> None:
    # Two L2 hold 2 MiB; 2.25 MiB of L3 are less than 1.1² = 1.21 times that.
    plain = machine()
    small = msgspec.structs.replace(plain.caches[2], size_bytes=2 * MIB + MIB // 4)
    on = msgspec.structs.replace(plain, caches=(*plain.caches[:2], small))
    trials = [trial("r", "read", 16e9, working_set_bytes=64 * MIB)]
    level = one_run(tmp_path, trials, on).bandwidth("L3")
    assert level.unknown["value"] == (
        "L3 is too small beside the caches below it for a set of its own"
    )


def test_only_one_kernel(tmp_path: Path) -> None:
    roof = one_run(tmp_path, [row for row in stream_trials("r") if row.kernel == "triad"])
    assert roof.bandwidth("DRAM").kernel == "triad"
    assert roof.peaks == ()
    assert roof.peak("fp32").unknown["value"] == "no fp32 peak was measured in mode 2c"


def test_unstable_trials_are_used_and_marked(tmp_path: Path) -> None:
    unstable = trial("r", "fma", 128e9, fma_per_element=64, stability="unstable")
    roof = one_run(tmp_path, [unstable, *stream_trials("r")])
    assert roof.peak("fp32").value == pytest.approx(128e9)
    assert roof.peak("fp32").stable is False
    assert roof.bandwidth("DRAM").stable is True


def test_a_trial_without_accepted_samples_gives_nothing(tmp_path: Path) -> None:
    empty = trial("r", "fma", 128e9, fma_per_element=64, spread=())
    roof = one_run(tmp_path, [empty])
    assert roof.peaks == ()
    assert roof.peak("fp32").value is None


def test_one_block_gives_a_value_without_an_interval(tmp_path: Path) -> None:
    single = trial("r", "fma", 128e9, fma_per_element=64, spread=(1.0,))
    peak = one_run(tmp_path, [single]).peak("fp32")
    assert peak.value == pytest.approx(128e9)
    assert peak.low is None
    assert "too few blocks (1)" in peak.unknown["low"]


def test_a_machine_that_reports_no_caches(tmp_path: Path) -> None:
    bare = msgspec.structs.replace(machine(), caches=())
    roof = one_run(tmp_path, [*fma_trials("r"), *stream_trials("r")], on=bare)
    assert roof.bandwidth("DRAM").value is None
    assert "reports no caches" in roof.bandwidth("DRAM").unknown["value"]
    assert roof.peak("fp32").value == pytest.approx(128e9)


def test_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    trials = [*fma_trials("r"), *stream_trials("r")]
    shuffled = list(trials)
    random.Random(5).shuffle(shuffled)
    assert one_run(tmp_path / "a", trials) == one_run(tmp_path / "b", shuffled)


def test_two_machines_are_never_mixed(tmp_path: Path) -> None:
    fast = Ceilings(peaks={"fp32": 999e9})
    for name, on, ceilings in (
        ("a", machine("Slow board"), TWO_CORES),
        ("b", machine("Fast board", "b" * 16), fast),
    ):
        write_run(tmp_path / name, manifest(name, 2, 0, on), fma_trials(name, ceilings))
    found = {roof.label: roof.peak("fp32").value for roof in rooflines(ingest(tmp_path))}
    assert found == {
        "Slow board, 2c": pytest.approx(128e9),
        "Fast board, 2c": pytest.approx(999e9),
    }


def test_the_same_mode_twice_gets_two_labels(tmp_path: Path) -> None:
    for name in ("first-run", "second-run"):
        write_run(tmp_path / name, manifest(name), fma_trials(name))
    labels = {roof.label for roof in rooflines(ingest(tmp_path))}
    assert labels == {"2c, run first-ru", "2c, run second-r"}
