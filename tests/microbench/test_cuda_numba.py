"""Numba's kernels for GPUs: their results in its simulator, and what libnvvm makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mansard.microbench.cuda.kernels.fma import CHAOS_C
from mansard.microbench.kernel import Array, Case, Shape, cuda_kernels, find_kernel, gpu_case
from tests.microbench.cuda_simulated import CASES, N_REPETITIONS, launch_of

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    file = tmp_path_factory.mktemp("simulator") / "arrays.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.microbench.cuda_simulated", str(file)],
        cwd=_ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        check=True,
        timeout=120,
    )
    with np.load(file) as archive:
        return dict(archive)


def arrays_of(found: dict[str, Array], name: str, when: str) -> tuple[Array, ...]:
    return tuple(array for key, array in found.items() if key.startswith(f"{name}_{when}_"))


@pytest.mark.parametrize("name", ["chaotic", "constant", "read", "copy", "triad"])
def test_the_simulator_equals_the_reference(simulated: dict[str, Array], name: str) -> None:
    case = CASES[name]
    kernel = find_kernel(case.kernel, "numba-cuda")
    launch = launch_of(case)
    before, after = (arrays_of(simulated, name, when) for when in ("before", "after"))
    repetitions = 1 if name == "chaotic" else N_REPETITIONS
    expected = kernel.reference(case, launch, before, repetitions)
    assert len(after) == len(expected) == len(launch.array_bytes)
    for mine, wanted in zip(after, expected, strict=True):
        assert mine.dtype == wanted.dtype
        assert mine.tobytes() == wanted.tobytes()


def test_long_chains_take_every_step(simulated: dict[str, Array]) -> None:
    # The simulator rounds products and sums; a chain of 99 steps shows a step left out.
    (z,) = arrays_of(simulated, "long", "before")
    c = np.float32(CHAOS_C["fp32"])
    for _ in range(33 * N_REPETITIONS):
        z = z * z + c
    (after,) = arrays_of(simulated, "long", "after")
    assert after.tobytes() == z.tobytes()


@pytest.mark.parametrize("name", ["fma", "read", "copy", "triad"])
@pytest.mark.parametrize("working_set_bytes", [1, 1 << 20, 48 << 20])
def test_work_and_traffic_are_those_of_the_cupy_kernel(name: str, working_set_bytes: int) -> None:
    case = gpu_case(name, "fp32", working_set_bytes, 64 if name == "fma" else None)
    shape = Shape(sm=87, n_sms=16)
    counts = []
    for backend in ("cupy", "numba-cuda"):
        kernel = find_kernel(name, backend)
        launch = kernel.launch(case, shape)
        counts.append(
            (
                kernel.work_flop(case, launch) / launch.n_elements,
                kernel.traffic_bytes(case, launch) / launch.n_elements,
            )
        )
        assert kernel.counting == find_kernel(name, "cupy").counting
    assert counts[0] == counts[1]


def compile_to_ptx(case: Case, monkeypatch: pytest.MonkeyPatch) -> str:
    """PTX by libnvvm, which needs no GPU; cuda.jit would look for one at once."""
    import numba.core.sigutils
    import numba.cuda

    cuda: Any = numba.cuda
    sigutils: Any = numba.core.sigutils
    given: list[Any] = []

    def keep(signature: str) -> Any:
        return lambda function: given.extend((function, signature))

    monkeypatch.setattr(cuda, "jit", keep)
    kernel = find_kernel(case.kernel, "numba-cuda")
    assert kernel.build is not None
    kernel.build(case)
    function, signature = given
    arguments, _ = sigutils.normalize_signature(signature)
    try:
        ptx, _ = cuda.compile_ptx(function, arguments, cc=(8, 7))
    except Exception as error:  # whatever Numba finds missing of the CUDA toolkit
        if "NVVM" in str(error) or "libdevice" in str(error):
            pytest.skip("no libnvvm of a CUDA toolkit here")
        raise
    return str(ptx)


def test_numba_fuses_and_writes_out_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = compile_to_ptx(gpu_case("fma", "fp32", 1, 64), monkeypatch)
    # 8 chains: 32 steps written out, and the loop of what is left.
    assert ptx.count("fma.rn.f32") >= 32 * 8 + 8
    # Contiguous arrays: 8 words of global memory in a tile, on every way through the kernel.
    assert ptx.count("ld.global.f32") >= 8
    assert ptx.count("ld.global.f32") % 8 == ptx.count("st.global.f32") % 8 == 0
    assert "ld.u32" not in ptx
    assert "ld.f32" not in ptx


@pytest.mark.parametrize(("name", "n_loads"), [("read", 16), ("copy", 8), ("triad", 16)])
def test_numba_streams_load_global_memory(
    name: str, n_loads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ptx = compile_to_ptx(gpu_case(name, "fp32", 1), monkeypatch)
    assert ptx.count("ld.global") >= n_loads  # loops are written out once or several times
    assert ptx.count("ld.global") % n_loads == 0
    assert "ld.u32" not in ptx
    assert "ld.f32" not in ptx


def test_every_numba_kernel_has_a_function_and_its_source() -> None:
    kernels = [kernel for kernel in cuda_kernels() if kernel.backend == "numba-cuda"]
    assert [kernel.name for kernel in kernels] == ["fma", "read", "copy", "triad"]
    assert all(kernel.build is not None and kernel.source for kernel in kernels)
