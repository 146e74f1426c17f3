"""Samples and summaries of tegrastats for people."""

from __future__ import annotations

import sys

from mansard.cli.console import note, print_table
from mansard.core.text import printable
from mansard.device.tegrastats import TegrastatsSample
from mansard.device.tegrastats.columns import FieldSummary, Utilisation
from mansard.device.tegrastats.rows import clean
from mansard.device.tegrastats.summary import LogSummary

_SCALES = {"B": ("MiB", 2.0**-20), "Hz": ("MHz", 1e-6), "W": ("W", 1.0), "%": ("%", 1.0)}
_HEAD = (
    f"{'time':>20} {'RAM GiB':>8} {'CPU %':>6} {'GPU %':>6} {'GPU MHz':>8} {'EMC %':>6} {'°C':>6}"
    "  power W"
)


def print_sample(sample: TegrastatsSample, time_s: float | None, *, with_head: bool) -> None:
    """One line of text on stdout: the means and maxima people look at first."""
    loads = [cpu.load_percent for cpu in sample.cpus if cpu.load_percent is not None]
    gpu, emc = sample.gpu, sample.emc
    celsius = [
        each.celsius
        for each in sample.temperatures
        if each.celsius is not None and each.name != "PMIC"  # a constant 50 or 100
    ]
    clock_hz = gpu.clock_hz if gpu is not None else None
    time = clean(sample.prefix) or ("" if time_s is None else f"{time_s:.3f} s")
    cells = (
        f"{printable(time)[-20:]:>20}",
        _number(sample.ram.used_bytes / 2**30 if sample.ram is not None else None, 8, 2),
        _number(sum(loads) / len(loads) if loads else None, 6, 1),
        _number(gpu.load_percent if gpu is not None else None, 6, 0),
        _number(clock_hz / 1e6 if clock_hz is not None else None, 8, 0),
        _number(emc.load_percent if emc is not None else None, 6, 0),
        _number(max(celsius, default=None), 6, 1),
    )
    rails = " ".join(f"{printable(rail.name)}={rail.power_w:.3f}" for rail in sample.rails)
    head = f"{_HEAD}\n" if with_head else ""
    sys.stdout.write(f"{head}{' '.join(cells)}  {rails}\n")
    sys.stdout.flush()


def _number(value: float | None, width: int, digits: int) -> str:
    return f"{'–':>{width}}" if value is None else f"{value:{width}.{digits}f}"


def print_summary(summary: LogSummary) -> None:
    """Tables of utilisation, other fields and power; warnings on stderr."""
    title = f"{summary.log}: {summary.n_lines} lines, {_duration(summary)} ({summary.source})"
    fields = {(each.field, each.quantity): each for each in summary.fields}
    print_table(
        title,
        ("utilisation", "lines", "load mean %", "max %", "clock min", "mean", "max MHz"),
        [_utilisation_row(each, fields) for each in summary.utilisation],
    )
    others = [each for each in summary.fields if each.unit not in {"%", "Hz", "W"}]
    print_table(
        "Memory and temperatures",
        ("field", "unit", "lines", "min", "mean", "max"),
        [_field_row(each) for each in others],
    )
    if summary.rails:
        print_table("Power and energy", ("rail", "min W", "mean W", "max W", "J"), _rails(summary))
        rule = summary.total_rule or f"unknown: {summary.unknown['total_rule']}"
        boundary = f" ({summary.total_boundary})" if summary.total_boundary else ""
        sys.stdout.write(f"total: {printable(rule)}{boundary}\n")
    reasons = {reason for each in (summary, *summary.rails) for reason in each.unknown.values()}
    for reason in sorted(reasons - set(summary.warnings)):
        note(f"{summary.log}: unknown: {reason}")
    for warning in summary.warnings:
        note(f"{summary.log}: {warning}")


def _duration(summary: LogSummary) -> str:
    if summary.duration_s is None:
        return "of unknown length"
    tolerance = 100 * (summary.duration_tolerance or 0.0)
    shown = f" ±{tolerance:.2g} %" if tolerance >= 0.1 else ""
    return f"{summary.duration_s:.6g} s{shown} by {summary.duration_source}"


def _utilisation_row(
    one: Utilisation, fields: dict[tuple[str, str], FieldSummary]
) -> tuple[str, ...]:
    clocks = [
        each for (name, what), each in fields.items() if name == one.name and what[:5] == "clock"
    ]
    load = ("–", "–")
    if one.mean_percent is not None and one.maximum_percent is not None:
        load = (f"{one.mean_percent:.1f}", f"{one.maximum_percent:.0f}")
    if not clocks:
        return one.name, str(one.n_lines), *load, "–", "–", "–"
    mean_hz = sum(clock.mean for clock in clocks) / len(clocks)
    lowest_hz, highest_hz = min(c.minimum for c in clocks), max(c.maximum for c in clocks)
    shown = (f"{clock_hz / 1e6:.0f}" for clock_hz in (lowest_hz, mean_hz, highest_hz))
    return one.name, str(one.n_lines), *load, *shown


def _field_row(one: FieldSummary) -> tuple[str, ...]:
    unit, scale = _SCALES.get(one.unit, (one.unit, 1.0))
    digits = 0 if one.unit == "B" else 2
    numbers = (f"{scale * each:.{digits}f}" for each in (one.minimum, one.mean, one.maximum))
    return f"{one.field} {one.quantity}", unit, str(one.n_lines), *numbers


def _rails(summary: LogSummary) -> list[tuple[str, ...]]:
    ranges = {each.field: each for each in summary.fields if each.unit == "W"}
    rows = []
    for rail in summary.rails:
        one = ranges[rail.rail]
        watts = (f"{each:.3f}" for each in (one.minimum, one.mean, one.maximum))
        rows.append((rail.rail, *watts, _joules(rail.energy_j)))
    total_w = "unknown" if summary.total_w is None else f"{summary.total_w:.3f}"
    rows.append(("total", "–", total_w, "–", _joules(summary.total_j)))
    return rows


def _joules(energy_j: float | None) -> str:
    return "unknown" if energy_j is None else f"{energy_j:.4g}"
