"""Checks of power meters: each rail with its step, one reading, and the total's rule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.cli.check import Check, missing, ok, warning
from mansard.core.errors import DeviceError
from mansard.core.records import MachineIdentity

if TYPE_CHECKING:
    from mansard.core.records import PowerSample
    from mansard.device.meters.meter import Meter, Meters

_UNTIL_THEN = "until then energy stays unknown"


def check_meters(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """Every meter read once; on a board also how its total is formed, and its tegrastats."""
    from mansard.device.meters.finding import find_meters

    meters = find_meters(root, machine)
    samples: list[PowerSample] = []
    for meter in meters.found:
        yield _check_meter(meter, samples)
    for name, reason in meters.missing.items():
        yield _missing_meter(name, reason)
    if machine.kind != "jetson":
        return
    if meters.found:
        yield _check_total(meters, samples)
    yield _check_tegrastats(root)


def _missing_meter(name: str, reason: str) -> Check:
    # Reasons end in what to do, but for those that end in a list of cards.
    what, _, advice = reason.rpartition("; ")
    if not what or reason.endswith(")"):
        return missing(name, reason, _UNTIL_THEN)
    return missing(name, what, f"{advice}; {_UNTIL_THEN}")


def _check_meter(meter: Meter, samples: list[PowerSample]) -> Check:
    try:
        reading = meter.read()
    except DeviceError as error:
        return warning(meter.name, f"does not answer: {error.what}", error.fix or _UNTIL_THEN)
    samples.extend(reading)
    rails = ", ".join(f"{rail} {_step(meter, rail)}" for rail in meter.rails)
    for sample in reading:
        if sample.power_w is None and sample.energy_j is None:
            return warning(
                meter.name,
                f"{sample.rail} does not answer: {sample.unknown.get('power_w', 'no reason')}",
                f"read the file by hand with 'cat'; {_UNTIL_THEN}",
            )
    return ok(meter.name, f"rails {rails}")


def _step(meter: Meter, rail: str) -> str:
    step_w = meter.step_w(rail)
    if step_w is None:
        return f"(step unknown: {meter.step_note(rail)})"
    return f"(steps of {step_w * 1e3:.3g} mW: {meter.step_note(rail)})"


def _check_total(meters: Meters, samples: list[PowerSample]) -> Check:
    from mansard.device.totals import total_power

    total = meters.total
    if total is None:
        return missing(
            "total power",
            meters.why_no_total,
            "rails are kept one by one; energy of the whole board stays unknown",
        )
    powers_w = {sample.rail: sample.power_w for sample in samples}
    steps_w = meters.facts(meters.period_s).steps_w
    now = total_power(powers_w, total, steps_w)
    if now.power_w is None and all(powers_w.get(rail) is not None for rail in total.rails):
        return warning(
            "total power",
            now.reason,
            "compare with a meter at the input; the total of this board is refused",
        )
    if now.power_w is not None and now.power_w <= 0:
        return warning(
            "total power",
            f"{' + '.join(total.rails)} reads {now.power_w:.3f} W, which no machine takes",
            "start the board (a simulated one: 'mansard demo simulated'), or look at the sensors "
            "with 'cat'",
        )
    return ok("total power", f"{total.rule}; {total.boundary}")


def _check_tegrastats(root: Path) -> Check:
    from mansard.device.system import find_tool

    if find_tool(root, "tegrastats") is None:
        return missing(
            "tegrastats",
            "the board's tool is not here; 'mansard telemetry --live' needs it",
            "install the board's package nvidia-l4t-tools, or run outside the container",
        )
    return ok("tegrastats", "there")
