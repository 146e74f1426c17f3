"""FLOP, bytes and times of a launch, by hand from its metrics."""

from __future__ import annotations

import pytest

from mansard.analytics.models.counters.metrics import count
from mansard.analytics.models.counters.tensor_work import (
    instruction_flop,
    kernel_precision,
    operand_precision,
)
from tests.analytics.ncu_exports import SASS, floats, launch

HMMA = "sm__inst_executed_pipe_tensor_op_hmma"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_relu_f2f_stages_32x5_tn"


NO_IMMA = {"sm__inst_executed_pipe_tensor_op_imma.sum": 0.0}
TOTAL = "sm__inst_executed_pipe_tensor.sum"
PIPE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


def test_fp32_of_sums() -> None:
    # 2·100 + 30 + 4 = 234 FLOP.
    metrics = floats(100, 30, 4) | {"sm__inst_executed_pipe_tensor.sum": 0}
    found = count(launch(metrics), precision="fp32")
    assert found.work_flop == 234
    assert [(w.unit, w.precision, w.flop) for w in found.work] == [("CUDA core", "fp32", 234)]


def test_fp32_of_rates_in_the_default_sections() -> None:
    # 1014 GFLOP/s for 4.252 ms is ncu.md's check of sgemm; here (2·100 + 8 + 4) · 1000 cycles.
    rate = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    metrics = {rate.format("ffma"): 100.0, rate.format("fadd"): 8.0, rate.format("fmul"): 4.0}
    metrics |= {"smsp__cycles_elapsed.max": 1000.0, "sm__inst_executed_pipe_tensor.sum": 0}
    assert count(launch(metrics), precision="fp32").work_flop == 212_000


def test_half_instructions_of_an_fp16_network_do_two_lanes() -> None:
    # 4·10 + 2·3 + 2·1 = 48.
    halves = {SASS.format("hfma"): 10, SASS.format("hadd"): 3, SASS.format("hmul"): 1}
    metrics = floats(0) | halves | {TOTAL: 0}
    for precision in ("fp16", "bf16"):
        (work,) = count(launch(metrics), precision=precision).work
        assert (work.flop, work.precision) == (48, precision)
    for other in ("fp32", "int8", None):  # there they move constants
        assert count(launch(metrics), precision=other).work_flop == 0


def test_packed_instructions_of_blackwell_do_two_floats() -> None:
    # 2·10 and 4·100 + 2·3 + 2·1 = 428.
    packed = {SASS.format("ffma2"): 100.0, SASS.format("fadd2"): 3.0, SASS.format("fmul2"): 1.0}
    metrics = floats(10) | {TOTAL: 0}
    assert count(launch(metrics | packed, sm=120), precision="fp32").work_flop == 428
    assert count(launch(metrics, sm=120), precision="fp32").work_flop is None  # not counted
    assert count(launch(metrics, sm=90), precision="fp32").work_flop == 20  # there are none
    # A chip whose list has no such metric, and all of the list were asked for.
    assert count(launch(metrics, sm=110), precision="fp32", all_asked=True).work_flop == 20


def test_work_is_unknown_where_a_unit_was_not_counted() -> None:
    found = count(launch(floats(5)), precision="fp32")
    assert found.work_flop is None
    assert "tensor pipe" in found.unknown["work_flop"]
    assert found.work[0].flop == 10  # what was counted stays


def test_the_recorded_gemm_by_instructions_and_cycles() -> None:
    # ncu.md: M=32768, N=256, K=256 is 2·32768·256·256 = 4.29497e9 FLOP on 8 SMs:
    # 51.95 % of 504,621 cycles, and 12.97 % of 505,386 cycles at 2 instructions a cycle.
    metrics = floats(0) | {
        "sm__cycles_elapsed.avg": 504_621.0,
        "sm__cycles_active.avg": 505_386.0,
        "launch__sm_count": 8.0,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 51.95,
        f"{HMMA}.avg.pct_of_peak_sustained_active": 12.97,
        "sm__inst_executed_pipe_tensor_op_imma.avg.pct_of_peak_sustained_active": 0.0,
        "sm__inst_executed_pipe_fma_type_fp16.avg.pct_of_peak_sustained_active": 0.0,
    }
    found = count(launch(metrics, GEMM), precision="fp16")
    assert found.work_flop == pytest.approx(2 * 32768 * 256 * 256, rel=5e-4)
    assert (found.work[0].unit, found.work[0].precision) == ("tensor core", "fp16")


def test_half_instructions_on_the_tensor_pipe_are_no_matrix_work() -> None:
    # The Gelu kernel of that export: 131,072 half instructions at half a cycle each on 8 SMs, so
    # 8,192 of 431,744 cycles: 1.90 %. Counted as HMMA.16816 they would be 0.54 GFLOP.
    metrics = (
        floats(0)
        | NO_IMMA
        | {
            "sm__cycles_elapsed.avg": 431_744.0,
            "launch__sm_count": 8.0,
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 1.90,
            f"{HMMA}.sum": 131_072.0,
        }
    )
    found = count(launch(metrics, "gelu"), precision="fp32")
    assert (found.work, found.work_flop) == ((), 0)


def test_half_instructions_are_taken_off_where_they_were_counted() -> None:
    # (1000 − 200) · 4096 FLOP.
    metrics = floats(0) | NO_IMMA | {f"{HMMA}.sum": 1000, f"{HMMA}_type_hfma2.sum": 200}
    (work,) = count(launch(metrics, GEMM), precision="fp32").work
    assert work.flop == 800 * 4096


def test_operations_of_the_tensor_path_are_flop() -> None:
    metrics = floats(0) | {"sm__ops_path_tensor_src_bf16_dst_fp32.sum": 4096.0, f"{HMMA}.sum": 9.0}
    (work,) = count(launch(metrics), precision="fp32").work
    assert (work.flop, work.precision) == (4096, "bf16")


@pytest.mark.parametrize("threads", [0, 12_800, 19_200])
@pytest.mark.parametrize(("sm", "flop"), [(75, 2048), (86, 4096)])
def test_half_instructions_with_a_pipe_of_their_own_are_not_taken_off(
    threads: int, sm: int, flop: int
) -> None:
    # 1000 matrix instructions, whatever else: gv11b, tu102 and ga102 list no type_hfma2.
    metrics = floats(0) | NO_IMMA | {f"{HMMA}.sum": 1000.0, SASS.format("hfma"): threads}
    metrics |= {SASS.format("hadd"): 0.0, SASS.format("hmul"): 0.0}
    found = count(launch(metrics, "kernel", sm), precision="fp16")
    tensor = [work.flop for work in found.work if work.unit == "tensor core"]
    assert tensor == [1000 * flop]
    assert found.work_flop == 1000 * flop + 4 * threads


def test_half_instructions_of_threads_are_taken_off_where_they_share_the_pipe() -> None:
    # A100's pipe_tensor counts HFMA2: 640 of them are 20,480 thread instructions, none is left.
    metrics = floats(0) | {TOTAL: 640, SASS.format("hfma"): 20_480}
    found = count(launch(metrics, "copy", 80), precision="fp32")
    assert (found.work, found.work_flop) == ((), 0)
    # 6144 without any: 6144 · 4096.
    metrics |= {TOTAL: 6144, SASS.format("hfma"): 0}
    name = "cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_64x1_tn_align8"
    (work,) = count(launch(metrics, name, 80), precision="fp32").work
    assert work.flop == 6144 * 4096
    # 23 of 712 threads, at least 22.25 of them plain: a few lanes are off.
    metrics |= {TOTAL: 23, SASS.format("hfma"): 712}
    assert count(launch(metrics, "reduce_kernel", 80), precision="fp32").work_flop == 0
    # Lanes that are off: 64 instructions of 3 threads may be plain, and may be matrices.
    found = count(launch(metrics | {TOTAL: 64, SASS.format("hfma"): 192}, "arange", 80))
    assert (found.work, found.work_flop) == ((), None)
    assert "cannot be told" in found.unknown["work_flop"]


def test_one_unit_that_was_counted_does_not_make_the_others_known() -> None:
    # An int8 network: HMMA 0, IMMA not counted. Without the pipe's cycles nothing tells.
    metrics = floats(10) | {f"{HMMA}.sum": 0.0}
    found = count(launch(metrics), precision="int8")
    assert (found.work_flop, found.work[0].flop) == (None, 20)
    assert "imma" in found.unknown["work_flop"]
    # Active for 80 % of 1000 cycles on 8 SMs, 4096 operations each: 26.2144e6, all IMMA's.
    cycles = {"sm__cycles_elapsed.avg": 1000.0, "launch__sm_count": 8.0, PIPE: 80.0}
    found = count(launch(metrics | cycles), precision="int8")
    assert found.work_flop == 20 + 26_214_400
    assert count(launch(metrics | {PIPE: 0.0}), precision="int8").work_flop == 20


def test_instructions_of_the_whole_pipe_are_counted_once() -> None:
    # All 1000 are IMMA's: 1000 · 8192, and none of HMMA.
    metrics = floats(0) | NO_IMMA | {TOTAL: 1000.0}
    metrics["sm__inst_executed_pipe_tensor_op_imma.sum"] = 1000.0
    found = count(launch(metrics, "trt_igemm", 80), precision="fp32")
    assert [(work.precision, work.flop) for work in found.work] == [("int8", 8_192_000)]


def test_operations_of_a_precision_that_was_not_counted_are_unknown() -> None:
    # A list without fp8: 0 operations of fp16, and the pipe was active.
    ops = {"sm__ops_path_tensor_src_fp16_dst_fp32.sum": 0.0}
    metrics = floats(0) | {f"{SASS.format(f'f{op}2')}": 0.0 for op in ("fma", "add", "mul")} | ops
    found = count(launch(metrics | {PIPE: 60.0}, "gemm_e4m3", 110), precision="fp8")
    assert found.work_flop is None
    assert "fp8 were not counted" in found.unknown["work_flop"]
    for counted, precision in ((metrics | {PIPE: 0.0}, "fp8"), (metrics | {PIPE: 60.0}, "fp16")):
        halves = {SASS.format(f"h{op}"): 0.0 for op in ("fma", "add", "mul")}
        assert count(launch(counted | halves, sm=110), precision=precision).work_flop == 0


def test_a_whole_and_its_parts_are_one_count() -> None:
    ops = {f"sm__ops_path_tensor_src_fp8{end}.sum": 100.0 for end in ("", "_dst_fp32")}
    (work,) = count(launch(floats(0) | ops, sm=89), precision="fp8").work
    assert (work.flop, work.precision) == (100, "fp8")


def test_int8_of_the_default_sections_is_by_the_cycles_of_the_pipe() -> None:
    # Half of 1000 cycles on 8 SMs, 4096 operations each: 16.384e6. Its instructions are a share.
    share = "sm__inst_executed_pipe_tensor_op_{}.avg.pct_of_peak_sustained_active"
    metrics = floats(0) | {
        "sm__cycles_elapsed.avg": 1000.0,
        "sm__cycles_active.avg": 1000.0,
        "launch__sm_count": 8.0,
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 50.0,
        share.format("hmma"): 0.0,
        share.format("imma"): 25.0,
    }
    found = count(launch(metrics, "trt_igemm"), precision="fp32")
    assert [(work.precision, work.flop) for work in found.work] == [("int8", 16_384_000)]
    assert found.work[0].formula.endswith("× SMs × 4096 OP")
    both = count(launch(metrics | {f"{HMMA}.sum": 1000.0}, GEMM), precision="fp32")
    assert both.work_flop is None
    assert "not counted" in both.unknown["work_flop"]


def test_chips_without_a_known_instruction_are_by_the_cycles_of_the_pipe() -> None:
    # 90: 4096 FLOP a cycle and SM in fp16.
    metrics = (
        floats(0)
        | {
            "sm__cycles_elapsed.avg": 1000.0,
            "launch__sm_count": 132.0,
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 80.0,
            f"{HMMA}.sum": 500.0,
            f"{HMMA}_type_hfma2.sum": 0.0,
        }
        | NO_IMMA
    )
    (work,) = count(launch(metrics, "nvjet_hsh_128x256", 90), precision="fp16").work
    assert work.flop == pytest.approx(0.8 * 1000 * 132 * 4096)


def test_a_zero_of_dram_is_unknown_on_a_jetson_and_counted_elsewhere() -> None:
    metrics = {"dram__bytes_read.sum": 0.0, "dram__bytes_write.sum": 0.0, "dram__bytes.sum": 0.0}
    orin, a100 = (count(launch(metrics, sm=sm)).traffic[-1] for sm in (87, 80))
    assert orin.traffic_bytes is None
    assert "no counters of DRAM" in orin.unknown["traffic_bytes"]
    assert a100.traffic_bytes == 0


def test_memory_of_a_jetson_is_what_fills_the_cache() -> None:
    # ncu.md: 529,007 sectors in and 524,301 out: 16.93 and 16.78 MB.
    metrics = {
        "lts__d_sectors_fill_sysmem.sum": 529_007.0,
        "lts__t_sectors_aperture_sysmem_op_write.sum": 524_301.0,
    }
    memory = count(launch(metrics)).traffic[-1]
    assert (memory.read_bytes, memory.write_bytes) == (32 * 529_007, 32 * 524_301)
    assert memory.traffic_bytes == 32 * (529_007 + 524_301)


def test_fills_as_a_share_of_a_sector_a_cycle_and_slice() -> None:
    # 24.25 % of 2,181,168 slice cycles is 528,933 sectors: 0.01 % off the counted ones.
    name = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
    metrics = {name: 24.25, "lts__cycles_elapsed.sum": 2_181_168.0}
    memory = count(launch(metrics)).traffic[-1]
    assert memory.read_bytes == pytest.approx(32 * 529_007, rel=2e-4)
    assert memory.write_bytes is None


def test_a_time_without_a_duration() -> None:
    # 5,387.52 cycles at 967,585,940.83 Hz: 5.568 µs.
    metrics = {"sm__cycles_elapsed.avg": 5387.52, "sm__cycles_elapsed.avg.per_second": 967585940.83}
    found = count(launch(metrics))
    assert found.time_s == pytest.approx(5.568e-6, rel=1e-4)
    assert found.clocks_hz == {"sm": 967585940.83}


def test_names_of_kernels() -> None:
    turing = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwc_tilesize64_tensor16x8x8_kernel"
    assert instruction_flop(GEMM) == 4096
    assert instruction_flop(turing) == 2048
    assert instruction_flop("ampere_sgemm_128x64_tn") is None
    # Volta: 16 × 16 × 16 are 8192 FLOP, 16 instructions with fp32 sums and 8 with fp16 ones.
    assert instruction_flop("volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn") == 512
    assert instruction_flop("volta_h884cudnn_256x64_ldg8_relu_exp_small_nhwc_tn_v1") == 1024
    assert instruction_flop("sm70_xmma_fprop_f16f16_f16_tensor8x8x4_kernel") is None
    assert instruction_flop("ampere_i16832gemm_int8_128x128_ldg16_stages_64x3_tn") == 8192
    assert kernel_precision(GEMM) == "fp16"
    assert kernel_precision(turing) == "tf32"
    assert kernel_precision("ampere_bf16_s16816gemm_bf16_64x64_tn") == "bf16"
    assert operand_precision("kernel", "fp32") == "tf32"


def _pipe(share: float) -> dict[str, float]:
    """A pipe that is active for ``share`` percent of 40,000 cycles on 8 SMs."""
    cycles = {"sm__cycles_elapsed.avg": 40_000.0, "launch__sm_count": 8.0, PIPE: share}
    return floats(0) | cycles


COPY = "void at::native::CatArrayBatchedCopy<OpaqueType<2>, 4, 64, 64>(T1 *, int)"


@pytest.mark.parametrize("kernel", [COPY, "elementwise_kernel", "splitKreduce_kernel", "softmax"])
@pytest.mark.parametrize("sm", [80, 87, 90])
@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_half_instructions_of_a_copy_are_no_matrix_work(
    kernel: str, sm: int, precision: str
) -> None:
    # HMMA was not counted, IMMA was: by cycles alone 0.08 % of 320,000 cycles at 2048 FLOP would
    # be 524 kFLOP of fp16. Half instructions moved constants, and nothing tells.
    metrics = _pipe(0.08) | NO_IMMA
    found = count(launch(metrics, kernel, sm), precision=precision)
    assert (found.work, found.work_flop) == ((), None)
    assert "by matrix or by plain half instructions" in found.unknown["work_flop"]


def test_a_share_that_was_rounded_to_0_hides_half_instructions() -> None:
    # A share of 0.00 % of HMMA, and 0.02 % of the pipe: no int8 work of a copy.
    share = {f"{HMMA}.avg.pct_of_peak_sustained_active": 0.0}
    found = count(launch(_pipe(0.02) | share, COPY), precision="int8")
    assert (found.work, found.work_flop) == ((), None)
    # 80 % cannot hide there: 0.8 · 320,000 cycles · 4096 OP.
    found = count(launch(_pipe(80.0) | share, "trt_igemm"), precision="int8")
    assert found.work_flop == pytest.approx(1_048_576_000)


def test_half_instructions_in_the_whole_pipe_of_an_int8_network_are_taken_off() -> None:
    # 640 instructions of the pipe are 20,480 half ones of threads; as IMMA they were 5.2 MOP.
    metrics = floats(0) | {TOTAL: 640.0, SASS.format("hfma"): 20_480.0}
    found = count(launch(metrics, "splitKreduce_kernel", 80), precision="int8")
    assert (found.work, found.work_flop) == ((), 0)
    # A name that says int8 has them all: 640 · 8192 OP.
    metrics |= {SASS.format("hfma"): 0.0}
    found = count(launch(metrics, "ampere_i16832gemm_int8_128x128_tn", 80), precision="int8")
    assert found.work_flop == 640 * 8192
