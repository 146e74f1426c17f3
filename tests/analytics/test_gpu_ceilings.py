"""Ceilings, limits and latencies of a GPU run against the physics it was made from."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.models.roofs.ceilings import gpu_levels
from mansard.analytics.models.roofs.gpu_kernels import KernelComparison
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.models.scaling.coefficients import roof_coefficients
from mansard.analytics.pages.results import Results, compute
from mansard.analytics.pages.tables.ceilings import bandwidth_table, latency_table
from mansard.core.errors import InputError
from mansard.core.records import Manifest, Trial
from tests.analytics.factory import KIB, MIB, TWO_CORES, fma_trials, manifest, write_run
from tests.analytics.gpu_factory import board, gpu_manifest, gpu_trial, orin, write_orin
from tests.analytics.gpu_runs import HZ, LAUNCHES, N_SMS, Run

RUN = "orin-30w"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return compute(ingest(write_orin(tmp_path_factory.mktemp("runs"))))


@pytest.fixture(scope="module")
def roof(results: Results) -> Roofline:
    (found,) = results.roofs
    return found


def roof_of(runs: Path, trials: list[Trial], run: Manifest | None = None) -> Roofline:
    write_run(runs / "r", run or gpu_manifest("r", len(trials)), trials)
    (found,) = compute(ingest(runs)).roofs
    return found


def standing(
    roof: Roofline, family: str, precision: str, kernel: str, backend: str
) -> KernelComparison:
    (found,) = (
        each
        for each in roof.kernel_comparisons
        if (each.ceiling.family, each.ceiling.subject) == (family, precision)
        and (each.ceiling.kernel, each.ceiling.backend) == (kernel, backend)
    )
    return found


def test_the_run_is_the_gpus_and_names_its_host(roof: Roofline) -> None:
    assert roof.full_name == "Jetson AGX Orin 64GB GPU"
    assert (roof.processor, roof.n_sms, roof.clock_hz) == ("gpu", 8, 612e6)
    assert roof.source == "simulated"


def test_every_precision_has_a_peak_on_each_unit(roof: Roofline) -> None:
    # fp32: 0.98 of 8 × 256 × 612 MHz; fp16 mma: 0.95 of 8 × 2048 × 612 MHz; int8 twice that
    assert roof.peak("fp32").value == pytest.approx(1.22830848e12)
    assert roof.peak("fp16", "tensor").value == pytest.approx(9.5256576e12)
    assert roof.peak("int8", "tensor").value == pytest.approx(19.0513152e12)
    assert roof.peak("tf32", "tensor").value == pytest.approx(4.7628288e12)
    assert roof.peak("int8").value is None
    assert [peak.name for peak in roof.peaks] == [
        *("fp16", "fp32", "fp64"),
        *("bf16 tensor", "fp16 tensor", "int8 tensor", "tf32 tensor"),
    ]


def test_the_best_backend_is_the_roof_and_the_others_stand_beside_it(roof: Roofline) -> None:
    assert roof.peak("fp16", "tensor").kernel == "mma"
    cublas = standing(roof, "tensor", "fp16", "gemm", "cublas")
    assert cublas.ratio == pytest.approx(0.90 / 0.95)
    assert cublas.share == pytest.approx(0.90)
    numba = standing(roof, "fma", "fp32", "fma", "numba-cuda")
    assert numba.ratio == pytest.approx(0.97 / 0.98)
    # A matrix product in fp32 without tensor cores: on CUDA cores, and below the chain.
    assert standing(roof, "fma", "fp32", "gemm", "cublas").share == pytest.approx(0.93)


def test_limits_are_at_the_measured_clock_and_sm_count(roof: Roofline) -> None:
    fp32 = standing(roof, "fma", "fp32", "fma", "cupy")
    assert fp32.limit == pytest.approx(1.253376e12)  # 8 × 256 × 612 MHz
    assert fp32.share == pytest.approx(0.98)
    assert fp32.clock_hz == 612e6
    half = standing(roof, "fma", "fp16", "fma", "cupy")
    assert half.limit is None
    assert half.unknown["share"] == "the fp16 FLOP/cycle of an sm_87 are unknown"
    # The port: 204.5 bytes × 612 MHz, less than 3199 MHz × 2 × 32 bytes.
    read = standing(roof, "stream", "DRAM", "read", "cupy")
    assert read.limit == pytest.approx(125.154e9)
    assert read.share == pytest.approx(0.97)


def test_a_slower_clock_lowers_the_limit_with_the_rate(tmp_path: Path) -> None:
    governed = msgspec.structs.replace(
        gpu_manifest("r").mode_read_back, kind="present", name="present"
    )
    chain = Run("fma", "fma", 0.98 * N_SMS * 256 * 306e6, fma_per_element=256)
    run = gpu_manifest("r", mode=governed)
    found = roof_of(tmp_path, [gpu_trial("r", chain, clock_hz=306e6)], run)
    assert standing(found, "fma", "fp32", "fma", "cupy").share == pytest.approx(0.98)


def test_in_place_memory_and_other_backends_are_in_no_roof(roof: Roofline) -> None:
    dram = roof.bandwidth("DRAM")
    assert (dram.kernel, dram.backend) == ("read", "cupy")
    assert dram.value == pytest.approx(121.39938e9)  # 0.97 × 125.154
    in_place = standing(roof, "stream", "DRAM", "read, zero-copy", "cupy")
    assert in_place.share == pytest.approx(0.70)
    assert in_place.ratio == 1.0  # a kind of its own
    assert standing(roof, "stream", "DRAM", "copy", "numba-cuda").share == pytest.approx(0.90)


def test_levels_by_scope(roof: Roofline) -> None:
    found = {level.name: (level.scope, level.capacity_bytes) for level in roof.levels}
    # L1: 192 KiB of each of 8 SMs
    assert found == {"L1": ("sm", 1536 * KIB), "L2": ("gpu", 4 * MIB), "DRAM": ("gpu", None)}
    assert roof.bandwidth("L1").value == pytest.approx(626.688e9)  # 8 × 128 × 612 MHz
    assert roof.bandwidth("L2").value == pytest.approx(313.344e9)  # 8 × 64 × 612 MHz
    assert [c.kernel for c in roof.bandwidths if c.subject == "L1"] == ["read"]


def test_a_set_of_the_wrong_scope_shows_no_level(tmp_path: Path) -> None:
    sliced = Run("read", "stream", 1e9, working_set_bytes=2 * MIB, scope="sm")
    swept = Run("read", "stream", 1e9, working_set_bytes=256 * KIB)  # one L1 holds 192 KiB
    found = roof_of(tmp_path, [gpu_trial("r", sliced), gpu_trial("r", swept)])
    assert all(ceiling.value is None for ceiling in found.bandwidths)


def test_the_ladder_of_latencies(roof: Roofline) -> None:
    ladder = {each.level: each for each in roof.latencies}
    for level, cycles in (("L1", 35), ("L2", 210), ("DRAM", 550)):
        # cycles / 612 MHz: 57, 343 and 899 ns
        assert ladder[level].value_s == pytest.approx(cycles / 612e6)
        assert ladder[level].cycles == pytest.approx(cycles)
    assert ladder["L1"].low_s is not None
    assert ladder["L1"].low_s < 35 / 612e6


def test_launches_one_by_one_and_in_a_graph(roof: Roofline) -> None:
    alone, graph = roof.launches
    assert (alone.kernel, graph.kernel) == ("launch", "graph")
    assert alone.value_s == pytest.approx(4e-6)
    assert graph.value_s == pytest.approx(1.25e-6)
    assert alone.low_s is not None
    assert alone.high_s is not None
    assert alone.low_s < 4e-6 < alone.high_s
    rows = roof_coefficients(roof, None, device="d", mode="m").filter(quantity="launch")
    assert rows.select("subject", "value", "source").rows() == [("", alone.value_s, "simulated")]
    assert rows["low"].to_list() == [alone.low_s]
    # neither a peak nor a bandwidth
    assert not {"launch", "graph"} & {c.kernel for c in (*roof.peaks, *roof.bandwidths)}


def test_launches_that_were_all_disturbed_are_a_coefficient_with_the_reason(tmp_path: Path) -> None:
    found = roof_of(tmp_path, [gpu_trial("r", LAUNCHES[1], disturbances=("hot",))])
    (launch,) = found.launches
    assert (launch.value_s, launch.n_disturbed) == (None, 1)
    rows = roof_coefficients(found, None, device="d", mode="m").filter(quantity="launch")
    assert rows["reason"].to_list() == ["all its trials were disturbed"]


def test_a_level_without_a_latency_says_why(tmp_path: Path) -> None:
    past_l1 = Run("latency", "latency", 1e7, working_set_bytes=64 * KIB, scope="gpu")
    disturbed = gpu_trial(
        "r", Run("latency", "latency", 1e6, working_set_bytes=64 * MIB), disturbances=("hot",)
    )
    found = {e.level: e for e in roof_of(tmp_path, [gpu_trial("r", past_l1), disturbed]).latencies}
    assert found["L1"].unknown["value_s"] == "no working set lies in L1"
    assert found["DRAM"].unknown["value_s"] == "all its trials were disturbed"


def test_constant_operands_are_in_no_ceiling(tmp_path: Path) -> None:
    real = Run("fma", "fma", 1.0e12, fma_per_element=256)
    easy = Run("fma", "fma", 1.2e12, fma_per_element=256, operands="constant")
    peak = roof_of(tmp_path, [gpu_trial("r", real), gpu_trial("r", easy)]).peak("fp32")
    assert peak.value == pytest.approx(1.0e12)


@pytest.mark.parametrize(
    ("clocks_hz", "reason"),
    [
        ((HZ, HZ * 0.97, HZ), "the SM clock drifted between 593.6 MHz and 612 MHz"),
        ((500e6,) * 3, "the SM clock was 500 MHz instead of 612 MHz"),
        ((HZ * 1.005,) * 3, None),
    ],
)
def test_a_clock_that_did_not_hold_disturbs_the_trial(
    tmp_path: Path, clocks_hz: tuple[float, ...], reason: str | None
) -> None:
    plain = gpu_trial("r", Run("fma", "fma", 1e12, fma_per_element=256))
    row = msgspec.structs.replace(
        plain, seconds_s=plain.seconds_s[:3], block=(0, 1, 2), clock_hz=clocks_hz
    )
    write_run(tmp_path / "r", gpu_manifest("r", 1), [row])
    (found,) = ingest(tmp_path).trials["disturbances"].to_list()
    assert found == ([] if reason is None else [reason])


def test_what_was_said_of_the_clock_is_not_said_twice(tmp_path: Path) -> None:
    told = "the GPU clock fell to 500 MHz from 612 MHz"
    row = gpu_trial("r", Run("read", "stream", 1e9), clock_hz=500e6, disturbances=(told,))
    write_run(tmp_path / "r", gpu_manifest("r", 1), [row])
    assert ingest(tmp_path).trials["disturbances"].to_list() == [[told]]


def test_cpu_and_gpu_of_one_machine_have_roofs_of_their_own(tmp_path: Path) -> None:
    chain = Run("fma", "fma", 1.2e12, fma_per_element=256)
    write_run(tmp_path / "gpu", gpu_manifest("gpu", 1), [gpu_trial("gpu", chain)])
    on_cpu = fma_trials("cpu", TWO_CORES)
    write_run(tmp_path / "cpu", manifest("cpu", 2, len(on_cpu), board()), on_cpu)
    found = {roof.label: roof for roof in compute(ingest(tmp_path)).roofs}
    assert set(found) == {"Jetson AGX Orin 64GB, 2c", "Jetson AGX Orin 64GB GPU, 30W"}
    assert found["Jetson AGX Orin 64GB, 2c"].peak("fp32").value == pytest.approx(128e9)
    assert found["Jetson AGX Orin 64GB GPU, 30W"].peak("fp32").value == pytest.approx(1.2e12)
    assert found["Jetson AGX Orin 64GB, 2c"].kernel_comparisons == ()


def test_a_trial_of_the_other_processor_is_refused(tmp_path: Path) -> None:
    on_cpu = fma_trials("r", TWO_CORES)
    write_run(tmp_path / "r", gpu_manifest("r", len(on_cpu)), on_cpu)
    with pytest.raises(InputError, match="ran on the CPU, by its manifest the run is one of the"):
        ingest(tmp_path)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"clock_hz": (612e6,)}, "repetitions and clocks differ"),
        ({"clock_hz": (0.0,) * 27}, "a clock is not positive"),
        ({"n_sms": 0}, "ran on no SM"),
    ],
)
def test_clocks_that_cannot_be_are_left_out(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    row = msgspec.structs.replace(gpu_trial("r", Run("read", "stream", 1e9)), **change)
    write_run(tmp_path / "r", gpu_manifest("r", 1), [row])
    dataset = ingest(tmp_path)
    assert dataset.trials.is_empty()
    assert problem in dataset.notes[0]


def test_a_slice_and_a_gpu_without_its_l2(tmp_path: Path) -> None:
    read = gpu_trial("r", Run("read", "stream", 100e9, working_set_bytes=64 * MIB))
    part = msgspec.structs.replace(orin(), mig="1g.12gb", unknown={"memory_hz": "not told"})
    sliced = roof_of(tmp_path / "a", [read], gpu_manifest("r", gpu=part))
    (only,) = sliced.kernel_comparisons
    assert only.unknown["limit"] == "the share of the memory's bandwidth of a MIG slice is unknown"
    unknown = {**orin().unknown, "l2_bytes": "CUDA does not say"}
    bare = msgspec.structs.replace(orin(), l2_bytes=None, unknown=unknown)
    found = roof_of(tmp_path / "b", [read], gpu_manifest("r", gpu=bare))
    assert found.levels == ()
    assert found.bandwidth("DRAM").value is None


def test_the_two_partitions_of_a_cards_l2_are_levels_of_their_own(tmp_path: Path) -> None:
    # Of 60 MiB one partition holds 30. Cycles as published for a GH200, between two levels made up.
    card = msgspec.structs.replace(orin(), sm=90, l1_bytes=256 * KIB, l2_bytes=60 * MIB)
    through_l1 = Run("latency", "latency", HZ / 32, working_set_bytes=128 * KIB, scope="sm")
    cycles = {15: 280, 30: 340, 42: 520, 540: 685}  # by MiB; 30 is at the edge, in no level
    past_l1 = [
        Run("latency", "latency", HZ / n, working_set_bytes=size * MIB)
        for size, n in cycles.items()
    ]
    loads = [through_l1, *past_l1]
    trials = [gpu_trial("r", load) for load in loads]
    write_run(tmp_path / "r", gpu_manifest("r", len(trials), gpu=card), trials)
    results = compute(ingest(tmp_path))
    (found,) = results.roofs
    assert {each.level: round(each.cycles or 0) for each in found.latencies} == {
        "L1": 32,
        "L2 near": 280,
        "L2 far": 520,
        "DRAM": 685,
    }
    remarks = {row[1]: row[-1] for row in latency_table(results).rows}
    assert remarks["L2 far"].startswith("part of these loads are near")
    assert remarks["L2 near"] == remarks["DRAM"] == ""
    # Bandwidths, which all SMs share, have one L2.
    assert [level.name for level in found.levels] == ["L1", "L2", "DRAM"]


def test_the_bandwidth_of_two_partitions_is_of_sets_that_each_of_them_holds(
    tmp_path: Path,
) -> None:
    # 0.75 of one half of 60 MiB is 22.5 MiB: a set of 33 MiB is of both, however fast it ran.
    card = msgspec.structs.replace(orin(), sm=90, l1_bytes=256 * KIB, l2_bytes=60 * MIB)
    rates = {8: 9.9e12, 16: 9.7e12, 33: 12e12}
    reads = [Run("read", "stream", rate, working_set_bytes=n * MIB) for n, rate in rates.items()]
    write_run(
        tmp_path / "r", gpu_manifest("r", 3, gpu=card), [gpu_trial("r", each) for each in reads]
    )
    results = compute(ingest(tmp_path))
    l2 = results.roofs[0].bandwidth("L2")
    assert l2.value is not None
    assert 9.7e12 <= l2.value <= 9.9e12
    assert l2.sets_bytes == (8 * MIB, 16 * MIB)
    table = bandwidth_table(results)
    (of_l2,) = [dict(zip(table.columns, row, strict=True)) for row in table.rows if row[1] == "L2"]
    assert of_l2["Working sets"].replace("\u00a0", " ") == "8 MiB to 16 MiB"
    # A slice of the card lies within one half, and an Orin has one: 0.75 of all of it.
    part = msgspec.structs.replace(card, mig="1g", unknown={"memory_hz": "not told"})
    assert gpu_levels(part, 16)[1].high_bytes == 45 * MIB
    assert gpu_levels(orin(), 8)[1].high_bytes == 3 * MIB
