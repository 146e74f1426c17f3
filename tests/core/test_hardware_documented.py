"""docs/reference/hardware.md tells the same numbers as the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.hardware import (
    MODULES,
    Module,
    Unit,
    memory_bytes_per_s,
    peak_flop_per_s,
    sm_flop_per_cycle,
    sm_l1_bytes,
)
from mansard.core.hardware.peaks import _FMA

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/hardware.md"
MODULES_BY_NAME = {module.name: module for module in MODULES.values()}


def row(module: Module) -> str:
    """The line of the page's table: clocks in MHz, FP32 in TFLOP/s, memory in GB/s."""
    configurations = [(module.gpu_hz, module.memory_hz)]
    if module.super_gpu_hz is not None:
        configurations.append((module.super_gpu_hz, module.highest_memory_hz))
    clocks, peaks, rates = [], [], []
    for gpu_hz, memory_hz in configurations:
        peak = peak_flop_per_s(module, n_sms=module.n_sms, gpu_hz=gpu_hz)
        assert peak is not None
        clocks.append(f"{gpu_hz / 1e6:g}")
        peaks.append(f"{peak / 1e12:.2f}")
        rates.append(f"{memory_bytes_per_s(module, memory_hz) / 1e9:.1f}")
    l2_kib = module.l2_bytes // 1024 if module.l2_bytes is not None else "–"
    cells = (
        module.name,
        ", ".join(module.part_numbers),
        f"{module.soc}, sm_{module.sm}",
        module.n_sms,
        " / ".join(clocks),
        " / ".join(peaks),
        l2_kib,
        f"{module.memory_bus_bits}: {' / '.join(dict.fromkeys(rates))}",
        module.n_cpus,
    )
    return f"| {' | '.join(map(str, cells))} |"


@pytest.mark.parametrize("name", MODULES_BY_NAME)
def test_the_page_has_every_modules_row(name: str) -> None:
    assert row(MODULES_BY_NAME[name]) in PAGE.read_text().splitlines()


@pytest.mark.parametrize("name", MODULES_BY_NAME)
def test_the_page_tells_every_rule_of_a_total(name: str) -> None:
    module = MODULES_BY_NAME[name]
    text = " ".join(PAGE.read_text().split())
    assert " + ".join(module.total_rails) in text
    assert module.boundary.partition(";")[0] in text


def test_the_page_names_what_nobody_confirmed() -> None:
    text = PAGE.read_text()
    for module in MODULES_BY_NAME.values():
        for field, source in module.sources.items():
            if "from memory, not confirmed" in source:
                assert f"{module.name}: " in text
                assert f"`{field}`" in text


@pytest.mark.parametrize("sm", sorted(_FMA))
def test_the_page_tells_what_every_sm_does_in_a_cycle(sm: int) -> None:
    columns: list[tuple[Unit, tuple[str, ...]]] = [
        ("fma", ("fp64", "fp32", "fp16", "bf16")),
        ("tensor", ("fp64", "tf32", "fp16", "bf16", "int8", "fp8", "fp4")),
    ]
    cells = [
        sm_flop_per_cycle(sm, precision, unit) or "–"
        for unit, precisions in columns
        for precision in precisions
    ]
    l1_bytes = sm_l1_bytes(sm)
    assert l1_bytes is not None
    start = f"| {' | '.join(map(str, (sm, *cells, l1_bytes // 1024)))} | "
    assert any(line.startswith(start) for line in PAGE.read_text().splitlines())
