"""The checks of ``mansard doctor``, in the order a reader wants them."""

from __future__ import annotations

from pathlib import Path

from mansard.cli.check import Check


def run_checks(root: Path) -> tuple[Check, ...]:
    """Every check on the machine under ``root``; files that hold junk end none of them."""
    from mansard.cli.check_clocks import check_clocks
    from mansard.cli.check_containers import check_containers
    from mansard.cli.check_machine import check_accelerators, check_machine
    from mansard.cli.check_meters import check_meters
    from mansard.cli.check_modes import check_modes
    from mansard.cli.check_present import check_present
    from mansard.cli.check_release import check_release
    from mansard.cli.check_state import check_state
    from mansard.cli.check_work import check_work
    from mansard.device.identity import identify

    machine = identify(root)
    on_board = machine.kind == "jetson"
    return (
        *check_machine(root, machine),
        *(check_release(machine) if on_board else ()),
        *check_work(machine),
        *(check_modes(root) if on_board else ()),
        *check_clocks(root, machine),
        *check_meters(root, machine),
        *check_present(root, machine),
        *check_state(root),
        *check_accelerators(machine),
        *check_containers(root, machine),
    )
