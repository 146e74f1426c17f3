"""Which folders --board may name: with a wrong one the results would be this machine's."""

from __future__ import annotations

from pathlib import Path

from mansard.core.errors import UsageError


def check_board(root: Path) -> None:
    """Raises UsageError unless ``root`` is a folder."""
    if not root.is_dir():
        raise UsageError(f"{str(root)!r} is no folder", fix="give the root folder of a board")


def check_measurable(root: Path) -> None:
    """Raises UsageError unless it is this machine's root, or a simulated board's.

    Any other folder would be measured as the machine that we run on, under its name.
    """
    from mansard.device.identity import SIMULATED_MARK, is_simulated
    from mansard.device.system import SYSTEM_ROOT

    check_board(root)
    if root.resolve() != SYSTEM_ROOT and not is_simulated(root):
        raise UsageError(
            f"{str(root)!r} is no simulated board: it has no {SIMULATED_MARK}",
            fix="'mansard demo' makes one; without --board this machine is measured",
        )
