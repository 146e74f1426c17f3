"""The metrics that Nsight Compute is asked for, against the lists of chips that it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.formats.ncu import (
    CUDA_CORE_WORK,
    DRAM_TRAFFIC,
    TEGRA_CHIPS,
    TEGRA_TRAFFIC,
    TENSOR_CORE_WORK,
    TENSOR_INSTRUCTIONS,
    TENSOR_PIPE,
    base_name,
    call_of,
    call_range,
    capability_of,
    chip_of,
    choose_metrics,
)

CHIPS = ("ga100", "ga102", "ga10b", "gh100", "gv100", "gv11b", "tu102")
# Of every chip: what the roles need besides FLOP of the tensor cores and bytes of the memory.
COMMON = {
    "gpu__time_duration",
    "sm__cycles_elapsed",
    "gpc__cycles_elapsed",
    "l1tex__t_bytes",
    "lts__t_bytes",
    *map(base_name, CUDA_CORE_WORK),
}
PIPE = {base_name(TENSOR_PIPE), *map(base_name, TENSOR_INSTRUCTIONS)}
DRAM = set(map(base_name, DRAM_TRAFFIC))
SYSMEM = set(map(base_name, TEGRA_TRAFFIC))


def test_the_range_of_a_call_has_its_number() -> None:
    assert call_of(["load", call_range(12), "@3@"]) == 12
    assert call_of(["mansard call 1a", f"mansard call {'1' * 5000}"]) is None


def test_operations_are_preferred_where_they_are_listed() -> None:
    newer = "sm__ops_path_tensor_src_fp16_dst_fp32"
    found = choose_metrics("ga102", COMMON | PIPE | DRAM | {newer})
    assert f"{newer}.sum" in found.metrics
    assert TENSOR_PIPE in found.metrics  # it tells that another precision ran
    assert not set(TENSOR_INSTRUCTIONS) & set(found.metrics)
    assert [name for name in found.metrics if name in TENSOR_CORE_WORK] == [f"{newer}.sum"]
    assert found.lacking == ()


def test_a_whole_and_its_parts_are_not_added() -> None:
    listed = {
        f"sm__ops_path_tensor_src_{name}" for name in ("fp8", "fp8_dst_fp32", "fp16_dst_fp16")
    }
    found = choose_metrics("ad102", COMMON | PIPE | DRAM | listed).metrics
    assert [name for name in found if name in TENSOR_CORE_WORK] == [
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum",
        "sm__ops_path_tensor_src_fp8.sum",
    ]


def test_small_floats_and_packed_instructions_of_blackwell_are_asked_for() -> None:
    # As published lists of gb10b and gb100 name them.
    small = {
        f"sm__ops_path_tensor_src_{name}"
        for name in ("fp4_fp6_fp8_dst_fp16", "fp4_fp6_fp8_dst_fp32", "fp4_dst_fp32")
    }
    packed = {f"sm__sass_thread_inst_executed_op_f{op}2_pred_on" for op in ("fma", "add", "mul")}
    found = choose_metrics("gb10b", COMMON | PIPE | SYSMEM | small | packed)
    assert {f"{name}.sum" for name in small | packed} <= set(found.metrics)
    assert [TENSOR_CORE_WORK[f"{name}.sum"] for name in sorted(small)] == ["fp4", "fp8", "fp8"]


def test_without_them_the_pipe_is_asked_and_what_ran_on_it() -> None:
    found = choose_metrics(
        "gv100", (COMMON | PIPE | DRAM) - {"sm__inst_executed_pipe_tensor_op_imma"}
    )
    assert TENSOR_PIPE in found.metrics
    assert "sm__inst_executed_pipe_tensor_op_hmma.sum" in found.metrics
    assert "sm__inst_executed_pipe_tensor_op_imma.sum" not in found.metrics


@pytest.mark.parametrize("chip", sorted(TEGRA_CHIPS))
def test_on_a_tegra_the_counters_of_dram_are_not_asked_even_if_they_are_listed(chip: str) -> None:
    found = choose_metrics(chip, COMMON | PIPE | DRAM | SYSMEM)
    assert set(TEGRA_TRAFFIC) <= set(found.metrics)
    assert not set(DRAM_TRAFFIC) & set(found.metrics)


def test_since_blackwell_the_counters_of_dram_have_other_names() -> None:
    found = choose_metrics("gb202", COMMON | PIPE | {"dram__bytes_op_read", "dram__bytes_op_write"})
    assert found.lacking == ()
    assert {"dram__bytes_op_read.sum", "dram__bytes_op_write.sum"} <= set(found.metrics)


def test_a_role_without_metrics_is_named() -> None:
    found = choose_metrics("ga102", COMMON | SYSMEM)
    assert found.lacking == ("tensor_core_work", "memory")
    assert choose_metrics("ga102", ()).metrics == ()


def test_a_card_s_chip_is_known_by_its_compute_capability() -> None:
    assert (chip_of(87), chip_of(72), chip_of(90)) == ("ga10b", "gv11b", "gh100")
    assert chip_of(53) is None  # Nsight Compute begins with Volta
    assert (capability_of("ga10b"), capability_of("zz1")) == (87, None)


@pytest.mark.shared_data
@pytest.mark.parametrize("chip", CHIPS)
def test_every_name_stands_in_the_list_of_its_chip(chip: str, shared_data: Path) -> None:
    listed = set((shared_data / "ncu/chip_metrics" / f"{chip}.txt").read_text().split())
    found = choose_metrics(chip, listed)
    assert found.lacking == ()
    assert {base_name(name) for name in found.metrics} <= listed
    # 1 time, 2 cycles, 1 clock, 9 of the CUDA cores, 2 caches, 2 of the memory: 17; and of the
    # tensor cores the pipe with HMMA, IMMA (not Volta's GV100), HFMA2 (GA10B, GA100, GH100),
    # DMMA (GA100 and GH100).
    n_of_tensor_cores = {"gv100": 2, "ga10b": 4, "ga100": 5, "gh100": 5}.get(chip, 3)
    assert len(found.metrics) == 17 + n_of_tensor_cores
