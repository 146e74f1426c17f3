"""The kernels as they are compiled for a Jetson: LLVM can show it on any machine."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import llvmlite.binding as llvm
import pytest

from mansard.microbench.cpu.compiling import SIGNATURE, cfunc
from mansard.microbench.cpu.emit import N_ACCUMULATORS, NEON, n_unrolled
from mansard.microbench.cpu.kernels import fma, streams

TRIPLE = "aarch64-unknown-linux-gnu"
LAYOUT = "e-m:e-i8:8:32-i16:32-i64:64-i128:128-n32:64-S128"


def instructions(function: Any) -> Counter[str]:
    """How often each instruction on vectors occurs in a kernel's code for Cortex-A78."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(TRIPLE)
    except RuntimeError:
        pytest.skip("this LLVM has no AArch64 back end")
    text = cfunc(SIGNATURE)(function).inspect_llvm()  # what comes from disk cannot be shown
    text = re.sub(r'target triple = ".*"', f'target triple = "{TRIPLE}"', text)
    text = re.sub(r'target datalayout = ".*"', f'target datalayout = "{LAYOUT}"', text)
    text = re.sub(r'"target-(cpu|features)"="[^"]*"', "", text)
    machine = target.create_target_machine(cpu="cortex-a78", opt=3)
    assembly = machine.emit_assembly(llvm.parse_assembly(text))
    # A mnemonic, then operands that begin with a vector register or part of one.
    return Counter(re.findall(r"^\t([a-z]+)\t[dqv]\d+[.,]", assembly, re.MULTILINE))


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_chains_use_vector_fma(precision: str) -> None:
    found = instructions(fma._make(precision, NEON.n_bytes, N_ACCUMULATORS, fma.SOURCE_HASH))
    # Eight unrolled steps of twelve vectors, and the single steps that may remain.
    assert found["fmla"] >= 8 * N_ACCUMULATORS


def test_stores_past_the_caches() -> None:
    make = streams._make
    past = make("triad", "fp64", NEON.n_bytes, n_unrolled(NEON.n_bytes), True, streams.SOURCE_HASH)
    plain = make(
        "triad", "fp64", NEON.n_bytes, n_unrolled(NEON.n_bytes), False, streams.SOURCE_HASH
    )
    # LLVM splits each vector into the pair that the instruction takes.
    assert instructions(past)["stnp"] >= n_unrolled(NEON.n_bytes)
    assert "stnp" not in instructions(plain)


def test_reading_is_not_left_out() -> None:
    read = streams._make("read", "fp32", NEON.n_bytes, n_unrolled(NEON.n_bytes), False, "")
    assert instructions(read)["eor"] >= n_unrolled(NEON.n_bytes)
