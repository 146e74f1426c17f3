"""Plans: sizes come from the caches, ids from the content."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import SchemaError, UsageError
from mansard.core.power_mode import core_count_mode
from mansard.core.records import Cache, CpuCluster, MachineIdentity
from mansard.core.storage.documents import read_document, write_document
from mansard.microbench.cpu.trial_specs import cache_capacity_bytes, stream_working_sets
from mansard.microbench.plan import KernelPlan, make_plan

KIB, MIB = 1024, 1024**2


def cache(level: int, size_bytes: int, sharers: int, n_cpus: int) -> Cache:
    return Cache(
        level=level,
        size_bytes=size_bytes,
        line_bytes=64,
        shared_cpus=tuple(range(sharers)),
        n_instances=n_cpus // sharers,
    )


def machine(n_cpus: int = 4, memory_bytes: int = 2**34, caches: bool = True) -> MachineIdentity:
    return MachineIdentity(
        kind="cpu",
        name="made up",
        is_simulated=False,
        architecture="x86_64",
        cpus=tuple(range(n_cpus)),
        caches=(
            (
                cache(1, 32 * KIB, 1, n_cpus),
                cache(2, 512 * KIB, 1, n_cpus),
                cache(3, 4 * MIB, n_cpus // 2, n_cpus),  # two clusters
            )
            if caches
            else ()
        ),
        memory_bytes=memory_bytes,
        operating_system="none",
        kernel_release="0",
        machine_hash="0",
        accelerators=(),
        board=None,
        cuda=None,
        driver=None,
        unknown=dict.fromkeys(("board", "cuda", "driver"), "a made-up machine"),
    )


def test_capacity_counts_the_instances_that_are_reached() -> None:
    # L1 and L2 are private; the last cache is shared by CPUs 0 and 1, and by 2 and 3.
    assert cache_capacity_bytes(machine(), (0,), 1) == 32 * KIB
    assert cache_capacity_bytes(machine(), (0, 1, 2), 2) == 3 * 512 * KIB
    assert cache_capacity_bytes(machine(), (0,), 3) == 4 * MIB
    assert cache_capacity_bytes(machine(), (0, 1), 3) == 4 * MIB
    assert cache_capacity_bytes(machine(), (0, 1, 2), 3) == 8 * MIB
    assert cache_capacity_bytes(machine(), (0,), 4) is None


def test_working_sets_reach_from_half_of_l1_to_four_times_the_last_cache() -> None:
    sizes = stream_working_sets(machine(), (0,), points_per_octave=1)
    # 16 KiB, doubled ten times: 16 MiB = 4 × 4 MiB
    assert sizes == tuple(16 * KIB * 2**k for k in range(11))


def test_the_end_of_the_sweep_is_measured_where_doubling_misses_it() -> None:
    three = msgspec.structs.replace(
        machine(6), caches=(cache(1, 32 * KIB, 1, 6), cache(3, 5 * MIB, 2, 6))
    )
    sizes = stream_working_sets(three, tuple(range(6)), points_per_octave=1)
    # 6 × 32 KiB / 2 = 96 KiB, doubled nine times is 48 MiB; the end is 4 × 3 × 5 MiB = 60 MiB.
    assert sizes[-2:] == (48 * MIB, 60 * MIB)


def test_a_brief_sweep_has_one_size_for_each_level() -> None:
    sizes = stream_working_sets(machine(), (0,), points_per_octave=0)
    # Half of L1; the middles √(1.5 · 32 KiB · 0.75 · 512 KiB) = 136 KiB and
    # √(1.5 · 512 KiB · 0.75 · 4 MiB) = 1536 KiB; the end, 4 × 4 MiB.
    assert sizes == (16 * KIB, 136 * KIB, 1536 * KIB, 16 * MIB)


def test_a_level_hardly_larger_than_the_one_below_gets_a_size_of_its_own() -> None:
    # AGX Orin: 12 cores with 64 KiB L1 and 256 KiB L2 each, and 2 MiB L3 for each cluster of 4.
    orin = msgspec.structs.replace(
        machine(12),
        caches=(cache(1, 64 * KIB, 1, 12), cache(2, 256 * KIB, 1, 12), cache(3, 2 * MIB, 4, 12)),
    )
    sizes = stream_working_sets(orin, tuple(range(12)), points_per_octave=1)
    # L2 holds 3 MiB, L3 6 MiB; the middle is √18 = 4.243 MiB, in steps of 12 × 4 KiB 4.265 MiB:
    # 4.243 × 1024 / 48 = 90.5, so 90 or 91 steps of 48 KiB.
    between = [size for size in sizes if 3.9 * MIB < size < 4.7 * MIB]
    assert between in ([90 * 48 * KIB], [91 * 48 * KIB])
    assert sizes[-1] == 24 * MIB


def test_working_sets_leave_memory_for_others() -> None:
    sizes = stream_working_sets(machine(memory_bytes=16 * MIB), (0,), points_per_octave=1)
    assert max(sizes) == 4 * MIB  # a quarter of 16 MiB


def test_without_described_caches_the_sweep_still_runs() -> None:
    sizes = stream_working_sets(machine(caches=False), (0, 1), points_per_octave=1)
    assert (sizes[0], sizes[-1]) == (32 * KIB, 256 * MIB)  # 16 KiB for each of two threads


@given(n_cpus=st.sampled_from([2, 4, 8]), points=st.integers(1, 8))
def test_every_array_of_every_thread_stays_aligned(n_cpus: int, points: int) -> None:
    sizes = stream_working_sets(machine(n_cpus), tuple(range(n_cpus)), points)
    assert all(size % (4 * KIB * n_cpus) == 0 for size in sizes)
    assert list(sizes) == sorted(set(sizes))


def test_a_plan_holds_the_grid_and_every_stream() -> None:
    plan = make_plan(machine(), core_count_mode(2), "quick")
    assert plan.cpus == (0, 1)
    chains = {spec.fma_per_element for spec in plan.trials if spec.kernel == "fma"}
    assert chains == {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
    assert sum(spec.kernel == "fma" for spec in plan.trials) == 22  # 11 chains, 2 precisions
    # Two L1 and the one last cache they share: 32 KiB doubled nine times is 16 MiB.
    assert sum(spec.kernel == "triad" for spec in plan.trials) == 10
    assert len(plan.trials) == 22 + 4 * 10


def test_stores_go_past_the_caches_only_where_nothing_stays_in_them() -> None:
    plan = make_plan(machine(), core_count_mode(1), "quick")
    copies = {s.working_set_bytes: s.stores for s in plan.trials if s.kernel == "copy"}
    assert copies[4 * MIB] == "plain"
    assert copies[8 * MIB] == "nontemporal"
    assert {s.stores for s in plan.trials if s.kernel == "read"} == {None}


def test_a_plan_repeats_itself() -> None:
    first, second = (make_plan(machine(), core_count_mode(2), "quick") for _ in range(2))
    assert first == second
    assert first.run_id == second.run_id


def test_run_ids_differ_in_everything_that_can_change_a_timing() -> None:
    plan = make_plan(machine(), core_count_mode(2), "quick")
    replace = msgspec.structs.replace
    others = [
        make_plan(machine(), core_count_mode(1), "quick"),
        make_plan(machine(), core_count_mode(2), "full"),
        make_plan(machine(8), core_count_mode(2), "quick"),
        replace(plan, versions={**plan.versions, "numba": "0.0"}),
        replace(plan, trials=plan.trials[1:]),
        replace(plan, protocol=replace(plan.protocol, time_cap_s=9.0)),
        replace(plan, machine=replace(plan.machine, machine_hash="1")),
        replace(plan, machine=replace(plan.machine, kernel_release="1")),
    ]
    assert len({plan.run_id, *(other.run_id for other in others)}) == 1 + len(others)


def test_the_size_of_memory_is_no_part_of_the_id() -> None:
    # The kernel reserves a little more or less of it after each of its own updates.
    ids = {
        make_plan(machine(memory_bytes=size), core_count_mode(1), "quick").run_id
        for size in (2**34, 2**34 - 4096)
    }
    assert len(ids) == 1


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = make_plan(machine(), core_count_mode(2), "full")
    write_document(tmp_path / "plan.json", plan)
    assert read_document(tmp_path / "plan.json", KernelPlan) == plan


def test_a_plan_with_a_trial_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = make_plan(machine(), core_count_mode(2), "quick")
    write_document(path, plan)
    row = msgspec.json.encode(plan.trials[0])
    compact = msgspec.json.encode(msgspec.json.decode(path.read_bytes()))
    path.write_bytes(compact.replace(row, row + b"," + row, 1))
    with pytest.raises(SchemaError, match="same trial twice"):
        read_document(path, KernelPlan)


def test_an_unknown_profile() -> None:
    with pytest.raises(UsageError, match="unknown profile 'slow'; use brief or quick or full"):
        make_plan(machine(), core_count_mode(1), "slow")


def test_a_mode_that_switches_cores_off_is_measured_on_the_others() -> None:
    clusters = (CpuCluster(cpus=(0, 1), max_hz=1e9), CpuCluster(cpus=(3,), max_hz=2e9))
    mode = msgspec.structs.replace(core_count_mode(3), clusters=clusters)
    assert make_plan(machine(4), mode, "brief").cpus == (0, 1, 3)
    # A process that may use CPU 2 only has none left.
    only = msgspec.structs.replace(machine(4), cpus=(2,))
    with pytest.raises(UsageError, match="leaves no CPU on"):
        make_plan(only, mode, "brief")
