"""Estimates held against counters: which kernel ran what, and why the numbers differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.models.counters import check as classes
from mansard.analytics.models.counters.by_kernel import call_sum
from mansard.analytics.models.counters.check import check_network
from mansard.analytics.models.counters.estimates import (
    CountedProduct,
    EstimatePart,
    Tile,
    padded_flop,
    splits_of,
    tile_of,
)
from mansard.analytics.models.counters.importing import ExportOrigin, counters_of
from mansard.analytics.models.counters.launch import Export, ProfiledLaunch
from mansard.analytics.models.counters.matching import match
from mansard.analytics.models.counters.metrics import count
from mansard.analytics.pages.tables.counters import checked_table
from mansard.core.errors import UsageError
from mansard.core.records import KernelCounters, LayerTime, ModelScore
from mansard.estimator import score, zoo
from tests.analytics.ncu_exports import SASS, launch

ORIGIN = ExportOrigin(device="board", network="net", batch=1, precision="fp32")


def kernel(
    name: str, flop: float, read: float, write: float, *, grid: Any = None, nvtx: Any = None
) -> ProfiledLaunch:
    """One that takes 1 µs; its work is multiply-adds in fp32."""
    metrics = {
        "gpu__time_duration.sum": 1e-6,
        SASS.format("ffma"): flop / 2,
        SASS.format("fadd"): 0.0,
        SASS.format("fmul"): 0.0,
        "sm__inst_executed_pipe_tensor.sum": 0.0,
        "dram__bytes_read.sum": read,
        "dram__bytes_write.sum": write,
    }
    return ProfiledLaunch(1, name, metrics, grid=grid, compute_capability=80, nvtx=nvtx)


def rows_of(
    launches: Sequence[ProfiledLaunch], origin: ExportOrigin = ORIGIN
) -> Sequence[KernelCounters]:
    return counters_of(Export("raw page", tuple(launches)), origin, "export")


@pytest.fixture(scope="module")
def alexnet() -> ModelScore:
    return score(zoo.read("alexnet"), name="net", batch=1, precision="fp32")


def test_tiles_in_names() -> None:
    assert tile_of("ampere_sgemm_128x64_tn") == Tile(128, 64, 8)
    assert tile_of("ampere_sgemm_0x128_tn") is None  # a name that no tile has
    assert tile_of("ampere_fp16_s16816gemm_fp16_128x64_ldg8_relu_f2f_stages_32x6_tn") == Tile(
        128, 64, 32
    )
    assert tile_of("cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8") == Tile(
        16, 16, 128
    )
    assert tile_of("sm80_xmma_fprop_implicit_gemm_f16_tilesize64x32x64_stage5") == Tile(64, 32, 64)
    assert tile_of("vectorized_elementwise_kernel") is None


def test_padding_by_hand() -> None:
    # 20 × 32 by 32 × 20, 16 times, in tiles of 128 × 128: 16 · 2·128·128·32 = 16,777,216 FLOP.
    assert padded_flop(CountedProduct(16, 20, 20, 32), Tile(128, 128, 8)) == 16_777_216
    # Sums of 20 in steps of 8 are 24: the recorded kernel has 6,291,456 multiply-adds.
    assert padded_flop(CountedProduct(16, 20, 32, 20), Tile(128, 128, 8)) == 2 * 6_291_456
    # 256 in four parts, each 64 padded to 128: twice the work.
    product = CountedProduct(1, 40, 256, 256)
    assert padded_flop(product, Tile(16, 16, 128), 4) == 2.0 * 48 * 256 * 512
    assert splits_of(product, Tile(16, 16, 128), (16, 3, 4)) == 4
    assert splits_of(product, Tile(16, 16, 128), (7, 1, 1)) is None


@given(*[st.integers(1, 500)] * 3, st.sampled_from([16, 32, 64, 128]), st.integers(1, 8))
def test_padding_never_takes_work_away(m: int, n: int, k: int, side: int, splits: int) -> None:
    product, tile = CountedProduct(1, m, n, k), Tile(side, side, 8)
    assert padded_flop(product, tile, splits) >= product.flop
    whole = CountedProduct(1, side * m, side * n, 8 * k)
    assert padded_flop(whole, tile) == whole.flop


def test_kernels_go_to_the_nodes_that_their_ranges_name(alexnet: ModelScore) -> None:
    conv = next(layer for layer in alexnet.layers if layer.op_type == "Conv")
    flop, read, write = conv.work_flop, conv.fused_read_bytes, conv.fused_write_bytes
    assert flop
    assert read
    assert write
    launches = [
        kernel("a", flop / 2, read / 2, write / 2, nvtx=("call", f"@{conv.index}@/conv")),
        kernel("b", flop / 2, read / 2, write / 2, nvtx=("call", f"@{conv.index}@/conv")),
        kernel("c", 5.0, 100.0, 0.0, nvtx=("call",)),
    ]
    checked = check_network(alexnet, rows_of(launches))
    part = next(each for each in checked.parts if conv.index in each.nodes)
    assert checked.matched == "nodes"
    assert checked.matched_share == pytest.approx(2 / 3)
    assert part.kernels == ("a", "b")
    assert part.counted_flop == pytest.approx(flop)
    assert part.counted_s == pytest.approx(2e-6)
    assert checked.left == ("c",)
    others = [each for each in checked.parts if not each.kernels]
    assert all(each.unknown["counted_flop"] == "no kernel was found for it" for each in others)


def test_sums_are_of_one_call(alexnet: ModelScore) -> None:
    conv = next(layer for layer in alexnet.layers if layer.op_type == "Conv")
    flop = float(conv.work_flop or 0)
    one = [kernel("conv", flop, 10.0, 10.0, nvtx=(f"@{conv.index}@",))]
    origin = ExportOrigin(device="board", network="net", precision="fp32", iterations=3)
    checked = check_network(alexnet, rows_of(one * 3, origin))
    assert checked.counted_flop == pytest.approx(flop)
    part = next(each for each in checked.parts if conv.index in each.nodes)
    assert part.counted_flop == pytest.approx(flop)


def test_the_sum_of_a_call() -> None:
    # Two calls of a kernel of 100 FLOP in 1 µs and one of 60 in 1 µs: 160 FLOP, 2 µs, 30 + 12 B.
    one = [kernel("a", 100.0, 20.0, 10.0), kernel("b", 60.0, 8.0, 4.0)]
    origin = ExportOrigin(device="board", network="net", precision="fp32", iterations=2)
    found = call_sum(rows_of(one * 2, origin))
    assert (found.calls, found.launches, found.work_flop) == (2, 2, 160)
    assert found.time_s == pytest.approx(2e-6)
    assert [(work.unit, work.precision, work.flop) for work in found.work] == [
        ("CUDA core", "fp32", 160)
    ]
    (memory,) = found.traffic
    assert (memory.level, memory.read_bytes, memory.write_bytes) == ("memory", 28, 14)


def test_clocks_are_means_over_the_time() -> None:
    # 1 GHz for 1 µs and 0.7 GHz for 2 µs: 0.8 GHz.
    clock, time = "gpc__cycles_elapsed.avg.per_second", "gpu__time_duration.sum"
    launches = [launch({clock: 1e9, time: 1e-6}), launch({clock: 0.7e9, time: 2e-6})]
    assert call_sum(rows_of(launches)).clocks_hz == pytest.approx({"gpc": 0.8e9})


def test_calls_that_launch_other_kernels_are_refused() -> None:
    launches = [kernel(name, 1.0, 1.0, 1.0) for name in ("a", "b", "b", "a")]
    for n in (2, 3):
        with pytest.raises(UsageError, match="not"):
            rows_of(launches, ExportOrigin(device="board", iterations=n))


def test_layers_that_were_timed_stand_beside(alexnet: ModelScore) -> None:
    conv = next(layer for layer in alexnet.layers if layer.op_type == "Conv")
    layer = LayerTime(
        index=0,
        name="conv",
        op_type="Conv",
        provider="cuda",
        nodes=(conv.index,),
        runs=1,
        seconds_s=(3e-6, 1e-6, 2e-6),
    )
    checked = check_network(alexnet, rows_of([kernel("conv", 1.0, 1.0, 1.0)]), [layer])
    part = next(each for each in checked.parts if conv.index in each.nodes)
    assert part.measured_s == 2e-6


def test_without_ranges_kernels_are_joined_by_order_and_size(alexnet: ModelScore) -> None:
    # Each layer as a kernel of its own work and bytes, and one between them that is none of it.
    launches = []
    for number, layer in enumerate(alexnet.layers):
        if layer.fused_traffic_bytes or layer.work_flop:
            name = "implicit_gemm" if layer.macs else f"{layer.op_type.lower()}_kernel"
            read, write = float(layer.read_bytes or 0), float(layer.write_bytes or 0)
            launches.append(kernel(name, float(layer.work_flop or 0), read, write))
        if number == 3:
            launches.append(kernel("memset", 0.0, 1.0, 1.0))
    checked = check_network(alexnet, rows_of(launches))
    assert checked.matched == "order and size"
    assert not checked.is_fused
    assert checked.left == ("memset",)
    ratios = [part.work_ratio for part in checked.parts if part.work_ratio is not None]
    assert ratios == pytest.approx([1.0] * len(ratios))


def test_of_products_with_the_same_work_that_whose_tiles_are_the_grid_is_it() -> None:
    # 512 × 64 by 64 × 64, then 64 × 64 by 64 × 512: both 4.19 MFLOP. Tiles of 128 columns × 32 rows
    # are a grid of 1 × 16 blocks for the first and of 4 × 2 for the second.
    shapes = (CountedProduct(1, 512, 64, 64), CountedProduct(1, 64, 512, 64))
    parts = [
        _part(
            name=str(at),
            nodes=(at,),
            product=each,
            work_flop=each.flop,
            multiply_add_flop=each.flop,
        )
        for at, each in enumerate(shapes)
    ]
    for grid, expected in (((1, 16, 1), 0), ((4, 2, 1), 1)):
        name = "ampere_sgemm_128x32_tn"
        padded = padded_flop(shapes[expected], Tile(128, 32, 8))
        rows = rows_of([kernel(name, padded, 1.0, 1.0, grid=grid)])
        assert list(match(parts, rows).kernels) == [expected]


def explained(name: str, flop: float, read: float, write: float = 0.0, **fields: Any) -> Any:
    """Classes of a 40 × 256 by 256 × 256 product in fp32 that kernels of these names ran."""
    part = _part(**fields)
    names = name.split(" ")
    rows = rows_of([kernel(each, flop, read / len(names), write / len(names)) for each in names])
    work = classes.work_classes(part, rows, flop)
    return work, classes.traffic_classes(part, rows, read + write, cache_bytes=1 << 20)


def _part(**fields: Any) -> Any:

    product = CountedProduct(1, 40, 256, 256)
    values: dict[str, Any] = {
        "name": "gemm",
        "nodes": (0,),
        "op_types": ("Gemm",),
        "precisions": ("fp32",),
        "work_flop": product.flop,
        "multiply_add_flop": product.flop,
        "read_bytes": READ,
        "write_bytes": WRITE,
        "bytes_alone": 2 * MOVED,
        "product": product,
    }
    return EstimatePart(**(values | fields))


PRODUCT = 2.0 * 40 * 256 * 256
READ, WRITE = 4.0 * (40 * 256 + 256 * 256), 4.0 * 40 * 256
MOVED = READ + WRITE
# Partial sums of 16 parts at most, written and read: 2 · 16 · 40 · 256 · 4 = 1,310,720 bytes.
PARTIAL = 1_310_720


@pytest.mark.parametrize(
    ("name", "flop", "read", "work", "traffic"),
    [
        ("sgemm", PRODUCT, MOVED, (), ()),
        # 40 rows are 64 in tiles of 32.
        ("ampere_sgemm_32x32_tn", 2.0 * 64 * 256 * 256, MOVED, (classes.PADDING,), ()),
        ("sgemm", 1.5 * PRODUCT, MOVED, (classes.NOT_EXPLAINED,), ()),
        ("ampere_winograd_4x4", PRODUCT / 2.25, MOVED, (classes.WINOGRAD,), ()),
        ("ampere_winograd_4x4", PRODUCT / 6, MOVED, (classes.NOT_EXPLAINED,), ()),
        ("vector_fft", 3 * PRODUCT, MOVED, (classes.NOT_EXPLAINED,), ()),
        ("sgemm splitKreduce_kernel", PRODUCT, MOVED + PARTIAL, (), (classes.SPLIT,)),
        ("sgemm splitKreduce_kernel", PRODUCT, 1e12, (), (classes.NOT_EXPLAINED,)),
        # Half of the bytes are those of the copy.
        ("sgemm nchwToNhwcKernel", PRODUCT, 1.9 * MOVED, (), (classes.REFORMATS,)),
        ("sgemm nchwToNhwcKernel", PRODUCT, 9 * MOVED, (), (classes.NOT_EXPLAINED,)),
        ("sgemm bias_kernel", PRODUCT, 1.4 * MOVED, (), (classes.UNFUSED,)),
        ("sgemm bias_kernel", PRODUCT, 3 * MOVED, (), (classes.NOT_EXPLAINED,)),
        ("sgemm", PRODUCT, MOVED + 24_000, (), (classes.LAUNCH,)),
        ("sgemm", PRODUCT, MOVED + 60_000, (), (classes.NOT_EXPLAINED,)),
        ("sgemm", PRODUCT, READ, (), (classes.CACHE,)),  # what it wrote
        ("sgemm", PRODUCT, 0.6 * READ, (), (classes.NOT_EXPLAINED,)),  # caches were emptied
        ("sgemm", PRODUCT, 0.0, (), (classes.NOT_EXPLAINED,)),
    ],
)
def test_classes(name: str, flop: float, read: float, work: Any, traffic: Any) -> None:
    assert explained(name, flop, read) == (work, traffic)


def test_what_joined_parts_write_for_each_other_need_not_move() -> None:
    # 2 · 100 kB between them: down to MOVED − 200,000 bytes, and 5 %.
    joined = {"between_bytes": 200_000.0}
    _, traffic = explained("sgemm", PRODUCT, MOVED - 200_000, **joined)
    assert traffic == (classes.FUSED,)
    _, traffic = explained("sgemm", PRODUCT, MOVED - 280_000, **joined)
    assert traffic == (classes.NOT_EXPLAINED,)


def test_elementwise_work_is_several_instructions() -> None:
    fields: dict[str, Any] = {"product": None, "multiply_add_flop": 0.0, "work_flop": 5000.0}
    work, _ = explained("gelu", 19_000.0, MOVED, **fields)
    assert work == (classes.SEVERAL,)
    work, _ = explained("gelu", 1e12, MOVED, **fields)  # 2·10⁸ for one of ours
    assert work == (classes.NOT_EXPLAINED,)


def test_warm_caches_are_no_check_of_the_bytes(alexnet: ModelScore) -> None:
    rows = rows_of([kernel("conv", 1.0, 10.0, 10.0)])
    cold, warm = (check_network(alexnet, rows, is_warm=each) for each in (False, True))
    assert cold.bytes_ratio is not None
    assert (warm.bytes_ratio, warm.counted_bytes) == (None, 20.0)
    assert "caches were not emptied" in warm.unknown["bytes_ratio"]
    assert all(not part.bytes_classes for part in warm.parts)


def _convolutions(score: ModelScore) -> list[Any]:
    return [layer for layer in score.layers if layer.op_type == "Conv"]


def test_parts_of_one_kernel_are_one_part(alexnet: ModelScore) -> None:
    first, second = _convolutions(alexnet)[:2]
    flop = float(first.work_flop + second.work_flop)
    read = float(first.fused_read_bytes + second.fused_read_bytes)
    name = f"@{first.index}@ + @{second.index}@"
    checked = check_network(alexnet, rows_of([kernel("a", flop, read, 0.0, nvtx=(name,))]))
    (part,) = (each for each in checked.parts if each.kernels)
    assert {first.index, second.index} <= set(part.nodes)
    assert part.name.endswith(" + 1 more")
    assert part.work_ratio == pytest.approx(1, abs=0.01)
    assert sum(first.index in each.nodes for each in checked.parts) == 1


def test_a_region_of_tensorrt_has_the_nodes_between_its_ends(alexnet: ModelScore) -> None:
    last = alexnet.layers[-1].index
    launches = [
        kernel("conv", 1.0, 10.0, 0.0, nvtx=("call", "@3@ + @4@")),
        kernel("rest", 1.0, 10.0, 0.0, nvtx=(f"{{ForeignNode[@0@...@{last}@]}}",)),
    ]
    rows = rows_of(launches)
    assert rows[0].nodes == (3, 4)
    assert rows[1].nodes == tuple(n for n in range(last + 1) if n not in (3, 4))
    checked = check_network(alexnet, rows)
    assert all(part.kernels for part in checked.parts)


def test_sums_by_kernel_are_aligned_with_nothing(alexnet: ModelScore) -> None:
    conv = _convolutions(alexnet)[0]
    one = kernel("conv_gemm", float(conv.work_flop), 10.0, 10.0)
    rows = [msgspec.structs.replace(row, n_launches=10) for row in rows_of([one])]
    checked = check_network(alexnet, rows)
    assert (checked.matched, checked.matched_share) == ("nothing", None)
    assert "no order" in checked.unknown["matched_share"]
    assert checked.counted_flop == pytest.approx(10 * conv.work_flop)
    assert not any(part.kernels for part in checked.parts)


def test_calls_that_launched_other_kernels_are_divided_and_not_aligned(
    alexnet: ModelScore,
) -> None:
    launches = [kernel("conv", 30.0, 3.0, 0.0)] * 3 + [kernel("once", 3.0, 3.0, 0.0)]
    checked = check_network(alexnet, rows_of(launches), calls=3)
    assert checked.counted_flop == (3 * 30 + 3) / 3
    assert checked.counted_bytes == (3 * 3 + 3) / 3
    assert "different kernels" in checked.unknown["matched_share"]


def test_a_kernel_without_a_range_does_not_end_the_call(alexnet: ModelScore) -> None:
    # The last call as its layers, with a kernel of another thread in the middle.
    launches = []
    for number, layer in enumerate(alexnet.layers):
        if layer.work_flop or layer.traffic_bytes:
            name = "implicit_gemm" if layer.macs else f"{layer.op_type.lower()}_kernel"
            moved = float(layer.read_bytes or 0), float(layer.write_bytes or 0)
            flop = float(layer.work_flop or 0)
            launches.append(kernel(name, flop, *moved, nvtx=("mansard call 1",)))
        if number == 9:
            launches.append(kernel("other_thread", 0.0, 1.0, 1.0, nvtx=()))
    checked = check_network(alexnet, rows_of(launches))
    assert all(part.kernels for part in checked.parts)


def test_a_launch_without_any_counter_has_a_reason_for_everything() -> None:
    found = count(launch({}))
    assert found.time_s is None
    assert set(found.unknown) == {"time_s", "n_sms", "sm_cycles", "work_flop", "pagoda_flop"}


def test_pagodas_rule_stands_beside_the_count_where_it_differs(alexnet: ModelScore) -> None:
    conv = next(layer for layer in alexnet.layers if layer.op_type == "Conv")
    gemm = kernel("s1688gemm", 200.0, 1.0, 1.0, nvtx=(f"@{conv.index}@",))
    # 3 instructions of 16 × 8 × 4 are 1024 FLOP each: 200 + 3072; by the rule 200 + 3·2048.
    tensor = {**gemm.metrics, "sm__inst_executed_pipe_tensor.sum": 3.0}
    other = replace(gemm, kernel="s1684gemm", metrics=tensor)
    checked = check_network(alexnet, rows_of([other]))
    part = next(part for part in checked.parts if part.kernels)
    assert (part.counted_flop, part.pagoda_flop) == (3272, 6344)
    assert (checked.counted_flop, checked.pagoda_flop) == (3272, 6344)
    assert "Pagoda's rule" in checked_table(checked).columns
    assert "Pagoda's rule" not in checked_table(check_network(alexnet, rows_of([gemm]))).columns
