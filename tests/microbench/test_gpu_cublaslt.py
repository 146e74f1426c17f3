"""Products of fp8 and fp4 by cuBLASLt, over a library of its functions that gcc makes."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mansard.core.errors import MeasurementError
from mansard.core.records import Operands
from mansard.microbench.cuda import cublaslt
from mansard.microbench.cuda.cupy_runtime import CupyRuntime
from mansard.microbench.cuda.software_gpu import GPU
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.values import operand_values
from mansard.microbench.kernel import Shape, find_kernel, gpu_case
from tests.microbench.gpu_fake_cupy import Fake

GEMM = find_kernel("gemm", "cublas")
_SOURCE = Path(__file__).with_name("cublaslt_stand_in.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Loaded under the name by which CUDA 13's is asked for."""
    file = tmp_path_factory.mktemp("cublaslt") / "libcublasLt.so.13"
    named = f"-Wl,-soname,{file.name}"
    command = ["gcc", "-O2", "-shared", "-fPIC", named, str(_SOURCE), "-lm", "-o", str(file)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(file))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake(total_bytes=1 << 28)
    for name, module in fake.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


def thor(precision: str, operands: Operands, runtime: CupyRuntime) -> CudaSource:
    case = gpu_case("gemm", precision, 1, operands=operands)  # the smallest, 256 × 256
    return CudaSource(GEMM, case, replace(GPU, sm=110), runtime)


@pytest.mark.parametrize("operands", ["chaotic", "constant"])
@pytest.mark.parametrize("precision", ["fp8", "fp4"])
def test_products_are_those_of_the_reference(
    fake: Fake, library: ctypes.CDLL, precision: str, operands: Operands
) -> None:
    with thor(precision, operands, CupyRuntime()) as source:
        source.take(1, 2)
        before, found = source.initial(), source.read()[2]
        _, _, wanted = GEMM.reference(source.case, source.launch, before, 1)
    assert found.dtype == wanted.dtype == np.uint16
    got, expected = operand_values("bf16", found), operand_values("bf16", wanted)
    # Rounded once to bf16 in either: of two float64 sums in another order at most one step apart.
    assert np.abs(got - expected).max() <= 2**-8 * np.abs(expected).max()
    if operands == "constant":  # ½·½·256 = 64
        assert (got == 64.0).all()
    assert [name for name, *_ in fake.launches[-2:]] == ["stamp_before", "stamp_after"]
    assert ctypes.c_uint64.in_dll(library, "cublaslt_room").value == cublaslt.WORKSPACE_BYTES
    assert ctypes.c_int64.in_dll(library, "cublaslt_stream").value == 0  # the fake's stream


def test_work_and_traffic_of_narrow_products() -> None:
    for precision, n_bytes in (("fp8", 1 + 1 + 2), ("fp4", 0.5 + 0.5 + 2 + 2 / 16)):
        case = gpu_case("gemm", precision, 1)
        launch = GEMM.launch(case, Shape(sm=110, n_sms=20))
        assert GEMM.work_flop(case, launch) == 2 * 256**3
        assert GEMM.traffic_bytes(case, launch) == n_bytes * 256**2


def test_a_card_without_an_algorithm_is_told(fake: Fake, library: ctypes.CDLL) -> None:
    flag = ctypes.c_int.in_dll(library, "cublaslt_has_algorithm")
    flag.value = 0
    try:
        with (
            pytest.raises(MeasurementError, match="cuBLASLt has no algorithm for this product"),
            thor("fp8", "chaotic", CupyRuntime()),
        ):
            pass
    finally:
        flag.value = 1


def test_a_library_that_is_not_there_is_named() -> None:
    with pytest.raises(MeasurementError, match=r"cuBLASLt cannot be loaded: libcublasLt\.so\.99"):
        cublaslt.open_cublaslt(99)


def test_e2m1_has_the_values_of_its_format() -> None:
    # Both halves of a byte, the lower first: codes 0 to 7 are 0 to 6, 8 to 15 their negatives.
    values = operand_values("fp4", np.array([0x10, 0x32, 0x54, 0x76, 0xF9], dtype=np.uint8))
    assert values.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.5, -6]
