"""Checks of a board's power modes: the tool, its configuration, the mode it is in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mansard.cli.check import Check, failed, missing, ok, warning
from mansard.core.errors import MansardError

_PACKAGE = "install the board's package nvidia-l4t-nvpmodel, or run outside the container"
_QUERY_TIMEOUT_S = 10.0


def check_modes(root: Path) -> Iterator[Check]:
    """Configuration, tool and present mode; a fault of one is told once."""
    from mansard.device.system import find_tool

    configuration = _check_configuration(root)
    yield configuration
    if find_tool(root, "nvpmodel") is None:
        yield missing("nvpmodel", "the board's tool is not here, so no mode can be set", _PACKAGE)
    elif configuration.status == "ok":  # else the tool would only repeat its complaint
        yield _check_present_mode(root)


def _check_configuration(root: Path) -> Check:
    from mansard.device.nvpmodel.modes import read_modes

    try:
        modes = read_modes(root)
    except MansardError as error:
        return failed("power modes", error, _PACKAGE)
    names = ", ".join(one.mode.name for one in modes.modes)
    if modes.config.ignored:
        junk = modes.config.ignored
        return warning(
            "power modes",
            f"{modes.where}: {len(junk)} lines are no part of its grammar, first {junk[0]!r}; "
            f"modes read: {names}",
            "repair the file, or reinstall the package nvidia-l4t-nvpmodel",
        )
    return ok("power modes", f"{names}; default {modes.default or 'not named'}")


def _check_present_mode(root: Path) -> Check:
    from mansard.device.nvpmodel.tool import query

    try:
        now = query(root, timeout_s=_QUERY_TIMEOUT_S)
    except MansardError as error:
        return failed("nvpmodel", error, "run 'sudo nvpmodel -q' by hand")
    if now.complaints:
        return warning(
            "nvpmodel",
            f"in mode {now.name}, but it complains: {now.complaints[0]}",
            "run 'sudo nvpmodel -q --verbose' by hand; a reboot sets a mode whole again",
        )
    return ok("nvpmodel", f"in mode {now.name}")
