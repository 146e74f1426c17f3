"""How long a battery lasts with a plan for a mix of networks."""

from __future__ import annotations

from dataclasses import dataclass

from mansard.analytics.decisions.mix_records import BatteryLife, MixPlan
from mansard.core.errors import UsageError

USUAL_EFFICIENCY = 0.85  # converter, ageing and cold leave 0.8 to 0.9


@dataclass(frozen=True, kw_only=True)
class Battery:
    """A battery and what it feeds beside the board.

    ``capacity_j``: its energy when full, J. ``efficiency``: the share that reaches the board's
    input. ``rest_w``: the power of all that the board's meters exclude: cameras, motors, the
    carrier board.

    >>> import mansard as m
    >>> m.Battery(capacity_j=99 * 3600, rest_w=4.0).efficiency
    0.85
    """

    capacity_j: float
    rest_w: float = 0.0
    efficiency: float = USUAL_EFFICIENCY

    def check(self) -> None:
        """Raise UsageError for a battery that cannot be."""
        if not self.capacity_j > 0:
            raise UsageError(f"a battery of {self.capacity_j} J is empty", fix="give a capacity")
        if not 0 < self.efficiency <= 1:
            what = f"an efficiency of {self.efficiency:g} is not between 0 and 1"
            raise UsageError(what, fix="write 0.85 or 85%")
        if not self.rest_w >= 0:
            raise UsageError(
                f"{self.rest_w} W is not a valid power of the rest", fix="write 0 or more"
            )


_DURATIONS = ("duration_s", "duration_low_s", "duration_high_s")


def battery_life(battery: Battery, plan: MixPlan | None) -> BatteryLife:
    """How long ``battery`` lasts with ``plan``: at the ends of its mean power, too."""
    powers, unknown = _powers(plan)
    useful_j = battery.capacity_j * battery.efficiency
    durations = {
        name: None if power_w is None else useful_j / (power_w + battery.rest_w)
        for name, power_w in zip(_DURATIONS, powers, strict=True)
    }
    return BatteryLife(
        capacity_j=battery.capacity_j,
        efficiency=battery.efficiency,
        rest_w=battery.rest_w,
        **durations,
        unknown={name: unknown for name, value in durations.items() if value is None},
    )


def _powers(plan: MixPlan | None) -> tuple[tuple[float | None, ...], str]:
    """The mean power, its upper and its lower end; and why one of them is unknown."""
    if plan is None:
        return (None, None, None), "no mode keeps up"
    if plan.roofed():
        return (None, None, None), "only lower bounds of the times are known: measure the networks"
    if plan.is_bounded():
        return (None, None, None), "only bounds of the times are known: measure the networks"
    powers = (plan.power_w, plan.power_high_w, plan.power_low_w)
    return powers, plan.unknown.get("power_w", plan.unknown.get("power_low_w", ""))
