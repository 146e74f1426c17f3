"""What Nsight Compute counts of Mansard's kernels, beside what Mansard says of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.analytics.data.published.readers.reader import ToolFile
from mansard.analytics.models.counters.launch import ProfiledLaunch
from mansard.analytics.models.counters.metrics import LaunchCounts, count
from mansard.analytics.models.counters.reading import read_export
from mansard.core.errors import MeasurementError
from mansard.core.formats.ncu import chip_of, choose_metrics
from mansard.core.hardware import sm_flop_per_cycle
from mansard.core.processes.programs import run_program
from mansard.inference.counters.ncu import command_line, find_ncu, listed_metrics, refusal_of
from mansard.inference.counters.profiled import counted
from mansard.microbench.cuda import trial_specs as trials
from mansard.microbench.cuda.source import CudaSource
from mansard.microbench.kernel import Backend, Case, find_kernel, gpu_case
from tools.card_check import Software
from tools.card_check.opening import Card
from tools.card_check.workfolder import WorkFolder

EXPECTED, EXPORT = "counters_expected", "counters.csv"
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Counting:
    """One launch to be counted: the kernel, what its set runs from, and how often."""

    kernel: str
    backend: Backend
    precision: str
    place: str  # registers, L1, L2, DRAM; of a product: nowhere in particular
    repetitions: int


COUNTINGS = (
    Counting("fma", "cupy", "fp32", "registers", 8),
    Counting("fma", "cupy", "fp64", "registers", 8),
    Counting("fma", "cupy", "fp16", "registers", 8),
    Counting("mma", "cupy", "fp16", "registers", 4),
    Counting("mma", "cupy", "int8", "registers", 4),
    Counting("wgmma", "cupy", "bf16", "registers", 2),
    Counting("read", "cupy", "fp32", "DRAM", 2),
    Counting("triad", "cupy", "fp32", "DRAM", 2),
    Counting("read", "cupy", "fp32", "L2", 40),
    Counting("read", "cupy", "fp32", "L1", 80),
    Counting("gemm", "cublas", "bf16", "", 1),
)


def run_countings(card: Card, work: WorkFolder) -> None:
    """The program that is profiled: each launch once, warmed up, between start and stop."""
    expected = []
    for one in COUNTINGS:
        kernel, case = find_kernel(one.kernel, one.backend), _case(one, card)
        if case is None or (one.backend == "cublas" and "cublas" not in card.versions):
            continue
        if not kernel.runs_in(one.precision, card.gpu.sm):
            continue
        opened = card.opened
        with CudaSource(kernel, case, card.gpu, opened.runtime, opened.clock) as source:
            source.take(1, one.repetitions)
            with nullcontext() if card.is_software else counted():
                source.take(1, one.repetitions)
            expected.append(
                {
                    "kernel": one.kernel,
                    "precision": one.precision,
                    "place": one.place,
                    "entry": kernel.entry(case) if one.backend == "cupy" else "",
                    "flop": one.repetitions * kernel.work_flop(case, source.launch),
                    "bytes": one.repetitions * kernel.traffic_bytes(case, source.launch),
                }
            )
    work.write(EXPECTED, expected)


def _case(one: Counting, card: Card) -> Case | None:
    gpu = card.gpu
    sized: trials.Sized | None = trials.chain_set(gpu)
    if one.kernel == "gemm":
        rate = sm_flop_per_cycle(gpu.sm, one.precision, "tensor")
        sized = trials.gemm_set(gpu, one.precision, rate)
    elif one.place == "DRAM":
        sized = trials.memory_set(gpu)
    elif one.place in {"L1", "L2"}:
        scope = "sm" if one.place == "L1" else "gpu"
        sized = next((level for level in trials.level_sets(gpu) if level.scope == scope), None)
    if sized is None:
        return None
    chain = trials.PEAK_CHAIN if one.kernel == "fma" else None
    return gpu_case(one.kernel, one.precision, sized.n_bytes, chain, scope=sized.scope)


def count_kernels(
    card: Card, work: WorkFolder, seconds: float, software: Software | None
) -> dict[str, Any]:
    """Run the program under ``ncu``; by launch what was counted and what was expected.

    Raises MansardError where there is no ncu, or it may not count.
    """
    ncu, chip = find_ncu(), chip_of(card.gpu.sm)
    if chip is None:
        raise MeasurementError(f"no chip is known of compute capability {card.gpu.sm / 10:.1f}")
    choice = choose_metrics(chip, listed_metrics(ncu, chip))
    program = [sys.executable, str(Path(__file__).parents[1]), "step", "countings"]
    program += ["--work", str(work.path)]
    program += [] if software is None else ["--software", software]
    command = command_line(ncu, program, metrics=choice.metrics, cache_control="none")
    done = run_program(
        command, timeout_s=seconds, max_bytes=_MOST_BYTES, is_merged=False, error=MeasurementError
    )
    (work.path / EXPORT).write_bytes(done.output)
    lines = (done.output + b"\n" + done.complaints).decode("utf-8", "replace").splitlines()
    refusal = refusal_of([line for line in lines if line.startswith("==")])
    if refusal is not None:
        raise refusal
    expected = work.read(EXPECTED)
    if not expected:
        said = next((line for line in reversed(lines) if line.strip()), "it says nothing")
        raise MeasurementError(f"the profiled program failed: {said}", where="ncu")
    launches = read_export(ToolFile(EXPORT, done.output)).launches
    return {
        "ncu": ncu.version,
        "lacking": choice.lacking,
        "ratios": list(compare(expected, launches, card.gpu.sm)),
    }


def compare(
    expected: Sequence[dict[str, Any]], launches: Sequence[ProfiledLaunch], sm: int
) -> Iterator[dict[str, Any]]:
    """By launch and quantity the counted over the expected; None where nothing was counted."""
    entries = tuple(one["entry"] for one in expected if one["entry"])
    left = [one for one in launches if not one.kernel.startswith("stamp_")]
    for one in expected:
        taken = []
        while left and left[0].kernel.startswith(one["entry"] or entries) == bool(one["entry"]):
            taken.append(left.pop(0))
            if one["entry"]:
                break
        tallies = [count(launch, precision=one["precision"], sm=sm) for launch in taken]
        name = f"{one['kernel']} {one['precision']} {one['place']}".strip()
        for what, total, wanted in _quantities(one, tallies):
            ratio = total / wanted if tallies and total is not None and wanted else None
            yield {"name": name, "what": what, "ratio": ratio}


def _quantities(
    one: dict[str, Any], tallies: Sequence[LaunchCounts]
) -> Iterator[tuple[str, float | None, float]]:
    if one["place"] in {"registers", ""}:
        unit = "CUDA core" if one["kernel"] == "fma" else "tensor core"
        flop = sum(work.flop for each in tallies for work in each.work if work.unit == unit)
        yield ("FLOP" if unit == "CUDA core" else "operations"), flop, one["flop"]
        return
    levels = {"L1": "L1", "L2": "L2", "DRAM": "memory"}
    yield f"{one['place']} bytes", _bytes(tallies, levels[one["place"]]), one["bytes"]
    beyond = {"L1": "L2", "L2": "memory"}.get(one["place"])
    if beyond is not None:
        yield "bytes beyond", _bytes(tallies, beyond), one["bytes"]


def _bytes(tallies: Sequence[LaunchCounts], level: str) -> float | None:
    found = [one.traffic_bytes for each in tallies for one in each.traffic if one.level == level]
    known = [value for value in found if value is not None]
    return sum(known) if known else None
