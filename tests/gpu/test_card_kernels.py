"""Every kernel on a real card: what its arrays hold afterwards is what its reference says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mansard.core.errors import UsageError
from mansard.core.records import Operands, Scope
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.cuda.values import operand_values
from mansard.microbench.kernel import Array, Case, Kernel, cuda_kernels, gpu_case
from tools.card_check.opening import Card

pytestmark = pytest.mark.gpu

KIB = 1024
REPETITIONS = 2
CHAIN = 21  # 16 + 4 + 1: rounds of every length that the kernels are made of
# Chains do not know of each other: every 31st is compared, so that all places in a warp and a
# tile are seen, and the reference lasts a second instead of half a minute.
CHAINS_STEP = 31
SCOPES: tuple[Scope, ...] = ("gpu", "sm")
OPERANDS: tuple[Operands, ...] = ("chaotic", "constant")


def cases() -> list[tuple[Kernel, str, Scope, Operands]]:
    """Every kernel in every precision; scopes and operands of those that have them."""
    found = []
    for kernel in cuda_kernels():
        scopes = SCOPES if kernel.family in {"fma", "stream", "latency"} else SCOPES[:1]
        if kernel.backend != "cupy":
            scopes = SCOPES[:1]
        operands = OPERANDS if kernel.family in {"fma", "stream", "tensor"} else OPERANDS[:1]
        found += list(product((kernel,), kernel.precisions, scopes, operands))
    return found


def name_of(case: tuple[Kernel, str, Scope, Operands]) -> str:
    kernel, *rest = case
    return "-".join((kernel.name, kernel.backend, *rest))


@pytest.mark.parametrize("one", cases(), ids=name_of)
def test_results_equal_the_reference(card: Card, one: tuple[Kernel, str, Scope, Operands]) -> None:
    kernel, precision, scope, operands = one
    opened = card.opened
    case = gpu_case(
        kernel.name,
        precision,
        256 * KIB * opened.gpu.n_sms,
        CHAIN if kernel.family == "fma" else None,
        operands,
        scope,
    )
    skip_unless_possible(card, kernel, case)
    with CudaSource(kernel, case, opened.gpu, opened.runtime, opened.clock) as source:
        source.refill()
        before = source.initial()
        raw = source.take(1, REPETITIONS)
        found = source.read()
        if kernel.family == "fma":
            before = tuple(array[::CHAINS_STEP].copy() for array in before)
            found = tuple(array[::CHAINS_STEP].copy() for array in found)
        wanted = kernel.reference(case, source.launch, before, REPETITIONS)
    for got, expected in zip(found, wanted, strict=True):
        compare(kernel, precision, got, expected)
    assert all(sample.duration_s > 0 for sample in raw)


def skip_unless_possible(card: Card, kernel: Kernel, case: Case) -> None:
    try:
        kernel.check(case, card.gpu.sm)
    except UsageError as error:
        pytest.skip(str(error))
    needed = {"numba-cuda": "numba-cuda", "cublas": "cublas"}.get(kernel.backend)
    if needed is not None and needed not in card.versions:
        why = next((note for note in card.notes if needed in note.split()), "it is not installed")
        pytest.skip(f"{needed}: {why}")


def compare(kernel: Kernel, precision: str, found: Array, wanted: Array) -> None:
    """Bit by bit, or within the kernel's tolerance of the largest value."""
    tolerance = kernel.tolerance.get(precision)
    if tolerance is None:
        np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))
        return
    got, expected = values_of(precision, found), values_of(precision, wanted)
    largest = np.abs(expected).max()
    assert np.isfinite(got).all()
    assert np.abs(got - expected).max() <= tolerance * largest


def values_of(precision: str, elements: Array) -> Array:
    """What elements stand for: bit patterns of bf16, fp8 and fp4 as numbers."""
    if elements.dtype == np.dtype("u2"):  # products of fp8 and fp4 are in bf16
        return operand_values("bf16", elements)
    if elements.dtype == np.dtype("u1"):
        return operand_values(precision, elements)
    return elements.astype(np.float64)
