"""Single steps on a machine: each is announced, done whole, and goes nowhere but to settings."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.device.clocks.settings import real_path
from mansard.device.nvpmodel.tool import Outcome, set_mode
from mansard.device.system import SYSTEM_ROOT, Finished, find_tool, run_tool, write_text

_TOOLS = ("nvpmodel", "jetson_clocks")
_POLL_S = 0.05


class Step(msgspec.Struct, frozen=True):
    """One thing that is done to the machine, or would be.

    kinds: ``write`` a setting, ``nvpmodel`` or ``jetson_clocks`` to be called, ``card`` a limit
    of a graphics card, ``journal`` written or removed.
    """

    kind: str
    target: str
    value: str
    why: str

    def __str__(self) -> str:
        if self.kind == "write":
            return f"echo {self.value} > {self.target} ({self.why})"
        words = " ".join(filter(None, (self.target, self.value)))
        return f"{words} ({self.why})"


OnStep = Callable[[Step], None]
Shield = Callable[[], AbstractContextManager[None]]


def quietly(step: Step) -> None:
    """Announce nothing."""


class Actor:
    """Does steps on the machine under ``root``, and says each beforehand."""

    def __init__(
        self, root: Path, on_step: OnStep = quietly, shield: Shield = contextlib.nullcontext
    ) -> None:
        self.root = root
        self._on_step = on_step
        self._shield = shield

    def announce(self, step: Step) -> None:
        """Say what comes next."""
        self._on_step(step)

    def write(self, path: str, text: str, why: str) -> None:
        """Write a setting; raises DeviceError."""
        with self._shield():
            self._on_step(Step("write", path, text.strip(), why))
            write_text(real_path(self.root, path), text)

    def set_nvpmodel(self, number: int, name: str, why: str) -> Outcome:
        """Have nvpmodel set a mode; raises DeviceError."""
        with self._shield():
            self._on_step(nvpmodel_step(self.root, number, name, why))
            return set_mode(self.root, number)

    def run_tool(self, name: str, arguments: Sequence[str], why: str) -> Finished:
        """Run another of the board's tools, "yes" to what it asks; raises DeviceError."""
        tool = find_tool(self.root, name)
        if tool is None:
            raise DeviceError(f"has no {name} that may be run", where=str(self.root))
        with self._shield():
            self._on_step(tool_step(self.root, name, " ".join(arguments), why))
            return run_tool([tool, *arguments], answer="Y\n")


def nvpmodel_step(root: Path, number: int, name: str, why: str) -> Step:
    """The call of nvpmodel that sets a mode."""
    return tool_step(root, "nvpmodel", f"-m {number}", f"{why}: mode {name}")


def tool_step(root: Path, name: str, arguments: str, why: str) -> Step:
    """A call of one of the board's tools."""
    tool = find_tool(root, name)
    return Step(name, f"/{tool.relative_to(root)}" if tool is not None else name, arguments, why)


def wait_for_tools(root: Path, timeout_s: float = 60) -> None:
    """Wait until no tool that a killed run started works on any more; raises DeviceError."""
    deadline_s = time.monotonic() + timeout_s
    while (running := _running_tool(root)) is not None:
        if time.monotonic() > deadline_s:
            raise DeviceError(
                f"process {running} is still setting the machine",
                where=str(root),
                fix="wait for it, or end it, and run 'mansard restore'",
            )
        time.sleep(_POLL_S)


def _running_tool(root: Path) -> int | None:
    tools = {os.fsencode(tool) for name in _TOOLS if (tool := find_tool(root, name)) is not None}
    if not tools:
        return None
    for folder in (SYSTEM_ROOT / "proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")[:3]
        except OSError:  # it has ended
            continue
        # The tool itself or, where it is a script, its interpreter with the tool's path.
        if tools & set(words) and int(folder.name) != os.getpid():
            return int(folder.name)
    return None
