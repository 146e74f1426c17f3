"""What a bench would do, without touching anything: every write, and the time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mansard.cli.console import print_json, print_table
from mansard.cli.measuring import ModePlan, describe_time, needs_setting, time_cap_s


def print_dry_run(plans: Sequence[ModePlan], root: Path, *, as_json: bool) -> None:
    """Print the modes in their order, each write of each, and the time they will take."""
    from mansard.device.clocks.nodes import find_clocks
    from mansard.device.holding.planning import planned_steps

    clocks = find_clocks(root)  # once: a grid can have thousands of modes
    steps = [
        planned_steps(root, each.plan.mode, clocks) if needs_setting(each.plan.mode) else ()
        for each in plans
    ]
    if as_json:
        print_json(
            {
                "modes": [
                    {
                        "mode": each.plan.mode,
                        "trials": len(each.plan.trials),
                        "missing": each.n_missing,
                        "steps": [str(step) for step in taken],
                    }
                    for each, taken in zip(plans, steps, strict=True)
                ],
                "duration_s": time_cap_s(plans),
            }
        )
        return
    rows = [
        (each.plan.mode.name, str(step))
        for each, taken in zip(plans, steps, strict=True)
        for step in (taken or ("nothing is set",))
    ]
    print_table("What would be done; nothing was touched", ("mode", "step"), rows)
    print(describe_time(plans))  # noqa: T201 - this line is the command's data
