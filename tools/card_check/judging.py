"""From a folder of results to the lines of the table; nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mansard.api.watching import read_samples
from mansard.core.records import BoardSample, Manifest, Trial
from mansard.microbench.cuda.sampling import GpuLimits, limits_of
from tools.card_check.lines.compute import compute_lines, twin_lines
from tools.card_check.lines.memory import latency_lines, launch_lines, memory_lines
from tools.card_check.lines.others import (
    counter_lines,
    gpu_test_lines,
    look_lines,
    program_lines,
    step_lines,
    trial_lines,
)
from tools.card_check.lines.power import power_lines
from tools.card_check.steps.gpu_tests import JUNIT, read_results
from tools.card_check.steps.looks import FILE as LOOKS
from tools.card_check.table import Line
from tools.card_check.words import words_of
from tools.card_check.workfolder import WorkFolder


def judge(work: WorkFolder) -> list[Line]:
    """All lines. What cannot be read is a line that fails, and the others stand."""
    steps = work.read("steps")
    parts: list[Callable[[], Iterator[Line]]] = [
        lambda: step_lines(steps),
        lambda: gpu_test_lines(read_results(work.path / JUNIT), steps),
        lambda: _kernel_lines(work),
        lambda: counter_lines(work.read("counters")),
        lambda: program_lines(work.program_runs()),
        lambda: look_lines(_looks(work), steps),
    ]
    lines: list[Line] = []
    for part in parts:
        try:
            lines += part()
        except Exception as error:  # a table with a line missing is better than none
            lines.append(Line("a part of the table", failure=words_of(error)))
    return lines


def _kernel_lines(work: WorkFolder) -> Iterator[Line]:
    rows = work.kernel_rows()
    manifests = [manifest for _, manifest in work.manifests()]
    limits = _limits(manifests)
    if limits is None:
        why = (work.read("kernels") or {}).get("why", "no run of kernels was begun")
        yield Line("kernels", failure=why)
        return
    yield from trial_lines(rows, work.read("kernels"), work.read("rest"))
    yield from _rates(rows, limits, work.read("peers"))
    yield from power_lines(rows, manifests, limits.gpu, work.read("meter"))


def _rates(rows: Sequence[Trial], limits: GpuLimits, peers: Any) -> Iterator[Line]:
    duels = (peers or {}).get("duels", {})
    yield from compute_lines(rows, limits, duels)
    yield from memory_lines(rows, limits, duels)
    yield from latency_lines(rows, limits)
    yield from launch_lines(rows)
    yield from twin_lines(rows)
    if peers and "why" in peers:
        yield Line("PyTorch beside Mansard", note=peers["why"])


def _limits(manifests: Sequence[Manifest]) -> GpuLimits | None:
    of_kernels = [one for one in manifests if one.kind == "kernels" and one.gpu is not None]
    if not of_kernels or of_kernels[0].gpu is None:
        return None
    first = of_kernels[0]
    return limits_of(of_kernels[0].gpu, first.machine, first.mode_read_back)


def _looks(work: WorkFolder) -> list[BoardSample]:
    path = work.path / LOOKS
    return list(read_samples(path)) if path.is_file() else []
