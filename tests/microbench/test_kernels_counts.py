"""Work and traffic by hand arithmetic; choices that depend on the machine; caching."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mansard.core.errors import MeasurementError, UsageError
from mansard.microbench.cpu.compiling import compile_cached, hash_source
from mansard.microbench.cpu.emit import (
    AVX2,
    AVX512,
    N_ACCUMULATORS,
    NEON,
    SSE,
    choose_unit,
    host_unit,
    n_unrolled,
)
from mansard.microbench.cpu.kernels import fma, streams
from mansard.microbench.cpu.launching import allocate
from mansard.microbench.cpu.trial_specs import choose_stores
from mansard.microbench.kernel import HOST, Case, cpu_kernels, find_kernel

KIB = 1024


@pytest.mark.parametrize(
    ("case", "work_flop", "traffic_bytes"),
    [
        # 48 KiB / 4 B = 12,288 elements × 64 FMA × 2 FLOP; 12,288 × (1 read + 1 write) × 4 B
        (Case("fma", "fp32", 48 * KIB, 64), 1_572_864, 98_304),
        # 48 KiB / 8 B = 6,144 elements × 1 FMA × 2 FLOP; 6,144 × 2 × 8 B
        (Case("fma", "fp64", 48 * KIB, 1), 12_288, 98_304),
        # 16 KiB / 4 B = 4,096 elements × 1 read × 4 B
        (Case("read", "fp32", 16 * KIB), 0, 16_384),
        # 2 arrays of 8 KiB: 2,048 elements × (1 read + 1 write) × 4 B
        (Case("copy", "fp32", 16 * KIB, None, "plain"), 0, 16_384),
        # 2 arrays of 8 KiB: 1,024 elements × 1 FLOP; × 2 × 8 B
        (Case("scale", "fp64", 16 * KIB, None, "nontemporal"), 1_024, 16_384),
        # 3 arrays of 8 KiB: 2,048 elements × 2 FLOP; × (2 reads + 1 write) × 4 B
        (Case("triad", "fp32", 24 * KIB, None, "plain"), 4_096, 24_576),
        # 16 KiB / 3 = 5,461 B, rounded down to 5 KiB = 1,280 elements; × 2 FLOP; × 3 × 4 B
        (Case("triad", "fp32", 16 * KIB, None, "plain"), 2_560, 15_360),
        # 100 B / 2 = 50 B, less than a granule: 12 elements, × (1 read + 1 write) × 4 B
        (Case("copy", "fp32", 100, None, "plain"), 0, 96),
    ],
)
def test_work_and_traffic(case: Case, work_flop: int, traffic_bytes: int) -> None:
    kernel = find_kernel(case.kernel)
    launch = kernel.launch(case, HOST)
    assert kernel.work_flop(case, launch) == work_flop
    assert kernel.traffic_bytes(case, launch) == traffic_bytes


def test_counting_names_the_stores() -> None:
    triad = find_kernel("triad")
    plain = triad.traffic_counting(Case("triad", "fp32", KIB, None, "plain"))
    past = triad.traffic_counting(Case("triad", "fp32", KIB, None, "nontemporal"))
    assert plain.endswith("no write-allocate; plain stores")
    assert past.endswith("no write-allocate; non-temporal stores")
    assert "stores" not in find_kernel("read").traffic_counting(Case("read", "fp32", KIB))


@pytest.mark.parametrize(
    ("size", "last_cache", "stores"),
    [
        (32 * KIB, 32 * KIB, "plain"),  # just fits
        (32 * KIB + 1, 32 * KIB, "nontemporal"),
        (10**9, None, "plain"),  # caches unknown
    ],
)
def test_stores_go_past_the_last_cache_only_when_nothing_would_stay(
    size: int, last_cache: int | None, stores: str
) -> None:
    assert choose_stores(size, last_cache) == stores


@pytest.mark.parametrize(
    "case",
    [
        Case("fma", "fp16", KIB, 1),
        Case("fma", "fp32", KIB),
        Case("read", "fp32", KIB, 4),
        Case("read", "fp32", KIB, None, "plain"),
        Case("copy", "fp32", KIB),
    ],
)
def test_cases_a_kernel_does_not_have(case: Case) -> None:
    with pytest.raises(UsageError):
        allocate(find_kernel(case.kernel), case)


def test_more_memory_than_there_is() -> None:
    with pytest.raises(MeasurementError, match="cannot map"):
        allocate(find_kernel("read"), Case("read", "fp32", 2**60))


def test_unknown_kernel_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="fma, read, copy, scale, triad"):
        find_kernel("daxpy")


@pytest.mark.parametrize(
    ("machine", "features", "unit"),
    [
        ("x86_64", {"avx512f": True, "avx2": True, "fma": True}, AVX512),
        ("x86_64", {"avx512f": False, "avx2": True, "fma": True}, AVX2),
        ("x86_64", {"avx2": True}, SSE),  # vectors of 256 bits, but no fused multiply-add
        ("x86_64", {}, SSE),
        ("aarch64", {"neon": True}, NEON),
        ("aarch64", {"neon": True, "sve": True}, NEON),
    ],
)
def test_vector_unit_of(machine: str, features: dict[str, bool], unit: object) -> None:
    assert choose_unit(machine, features) == unit


def test_a_stream_that_names_no_width_has_a_variant_for_each() -> None:
    case = Case("triad", "fp32", KIB, None, "plain")
    widths = [variant.vector_bytes for variant in find_kernel("triad").variants(case)]
    assert widths == list(host_unit().stream_widths)
    chosen = replace(case, vector_bytes=16)
    assert find_kernel("triad").variants(chosen) == (chosen,)
    counting = find_kernel("triad").traffic_counting(chosen)
    assert counting.endswith("; plain stores; vectors of 16 bytes")
    chain = Case("fma", "fp32", KIB, 1)
    assert find_kernel("fma").variants(chain) == (chain,)


def test_constants_and_accumulators_fit_into_the_registers() -> None:
    for unit in (AVX512, AVX2, SSE, NEON):
        assert unit.n_registers > N_ACCUMULATORS + 1
        for width in unit.stream_widths:
            assert width <= 64  # a line holds a vector
            assert unit.n_registers > n_unrolled(width) + 1


def test_names_are_unique_and_hashes_are_of_the_source(tmp_path: Path) -> None:
    assert len({kernel.name for kernel in cpu_kernels()}) == len(cpu_kernels())
    for module, kernel in ((fma, "fma"), (streams, "triad")):
        assert find_kernel(kernel).source_hash == hash_source(str(module.__file__))
    # Any change of a file that the code depends on changes the hash.
    folder = Path(str(fma.__file__)).parents[1]
    shutil.copytree(folder, tmp_path / "cpu")
    copy = str(tmp_path / "cpu" / "kernels" / "fma.py")
    assert hash_source(copy) == fma.SOURCE_HASH
    (tmp_path / "cpu" / "emit.py").write_bytes((folder / "emit.py").read_bytes() + b"#\n")
    assert hash_source(copy) != fma.SOURCE_HASH


def test_compiles_where_nothing_can_be_kept_on_disk() -> None:
    scope: dict[str, Any] = {}
    text = "def kernel(a, b, c, n, steps, repetitions):\n    pass\n"
    exec(compile(text, "<no such file>", "exec"), scope)  # noqa: S102 -- has no file to cache beside
    assert compile_cached(scope["kernel"]).address != 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_callback_of_llvm_drops_still_interrupts(tmp_path: Path) -> None:
    # Numba takes its machine code in such a callback, where Ctrl-C may come as anywhere else.
    file = tmp_path / "made_up.py"
    file.write_text("def kernel(a, b, c, n, steps, repetitions):\n    pass\n")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)  # noqa: S102

    def interrupt(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "_object_compiled_hook":
            sys.setprofile(None)
            raise KeyboardInterrupt

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            compile_cached(scope["kernel"])
    finally:
        sys.setprofile(None)
