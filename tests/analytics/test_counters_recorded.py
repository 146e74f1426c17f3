"""All recorded exports of Nsight Compute are read, and their arithmetic comes out."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.models.counters.importing import ExportOrigin, import_counters
from mansard.core.errors import InputError
from mansard.core.records import KernelCounters

pytestmark = pytest.mark.shared_data
# The launches of each file, as its rows and IDs say.
LAUNCHES = {
    "id4732774882__orin_cc8.7_ncu_text_sections_softmax.txt": 1,
    "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv": 46,
    "joshua41057__orin_nano_fno_fp32_ncu_details_long.csv": 222,
    "joshua41057__orin_nano_fno_fp32_ncu_per_kernel.txt": 33,
    "joshua41057__orin_nano_fno_fp32_ncu_per_kernel_summary.csv": 32,
    "joshua41057__orin_nano_fno_fp32_ncu_raw_wide.csv": 222,
    "leleucas__A100_bert_attention_flashattn_fp16_ncu_long.csv": 10,
    "leleucas__A100_bert_attention_torch_fp32_ncu_long.csv": 26,
    "leleucas__A100_bert_attention_torch_fp32_ncu_wide_processed.csv": 26,
    "leleucas__A100_linear_ncu.csv": 1381,
    "leleucas__A100_relu_ncu.csv": 4237,
}
NO_COUNTERS = {
    "joshua41057__orin_nano_nsys_cuda_api_sum.csv",
    "joshua41057__orin_nano_nsys_cuda_gpu_kern_sum.csv",
    "leleucas__A100_relu_shapes.json",
}


def rows_of(folder: Path, name: str, precision: str = "fp32") -> tuple[KernelCounters, ...]:
    sm = 80 if "A100" in name else None
    origin = ExportOrigin(device="a board", precision=precision, compute_capability=sm)
    return import_counters(folder / "ncu" / name, origin).rows


def test_no_file_is_forgotten(shared_data: Path) -> None:
    files = [path for path in (shared_data / "ncu").iterdir() if path.is_file()]
    assert {path.name for path in files} == {*LAUNCHES, *NO_COUNTERS}


@pytest.mark.parametrize("name", LAUNCHES)
def test_every_launch_is_read(shared_data: Path, name: str) -> None:
    rows = rows_of(shared_data, name)
    assert len(rows) == LAUNCHES[name]
    assert all(row.time_s for row in rows) or name == "leleucas__A100_linear_ncu.csv"


@pytest.mark.parametrize("name", sorted(NO_COUNTERS))
def test_other_files_are_refused_in_a_line(shared_data: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not an export"):
        rows_of(shared_data, name)


def test_the_gemm_whose_work_is_known(shared_data: Path) -> None:
    # M=32768, N=256, K=256: 2·M·N·K = 4.29497 GFLOP; (M·K + K·N) · 2 B = 16.908 MB read and
    # M·N · 2 B = 16.777 MB written.
    rows = rows_of(
        shared_data, "joshua41057__orin_nano_deeponet_fp16_native_ncu_raw_wide.csv", "fp16"
    )
    gemm = rows[21]
    (tensor,) = (work for work in gemm.work if work.unit == "tensor core")
    memory = gemm.traffic[-1]
    assert gemm.grid == (2, 256, 1)
    assert tensor.flop == pytest.approx(4.29497e9, rel=0.005)
    assert memory.read_bytes == pytest.approx(16.908e6, rel=0.005)
    assert memory.write_bytes == pytest.approx(16.777e6, rel=0.005)
    assert gemm.clocks_hz["gpc"] == pytest.approx(1.006e9, rel=1e-3)


def test_one_report_as_raw_and_as_details_page_has_the_same_times(shared_data: Path) -> None:
    raw, long = (
        rows_of(shared_data, f"joshua41057__orin_nano_fno_fp32_ncu_{page}.csv")
        for page in ("raw_wide", "details_long")
    )
    for one, other in zip(raw, long, strict=True):
        assert one.kernel == other.kernel
        assert one.grid == other.grid
        assert one.time_s == pytest.approx(other.time_s, rel=5e-3)  # three digits


def test_a_linear_layer_of_an_a100(shared_data: Path) -> None:
    # First row: N=256, 512 -> 1536: 256·512·1536 = 201,326,592 multiply-adds.
    row = rows_of(shared_data, "leleucas__A100_linear_ncu.csv")[0]
    assert row.kernel.startswith("N=256, cin=512, cout=1536")
    assert row.work_flop == 2 * 201_326_592 + 1_572_864 + 1_179_648
    assert row.pagoda_flop == 405_405_696  # as its author has it in the column "all FLOPs"
    assert row.traffic[-1].traffic_bytes == 3_670_272
