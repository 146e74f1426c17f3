"""A made-up graphics card: a stand-in for NVML, compiled here, and code that runs over it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "nvml_stand_in/settings.c"
DEFAULT = "700000 0 0"

needs_a_card = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler"),
    pytest.mark.skipif(find_spec("pynvml") is None, reason="nvidia-ml-py is not installed"),
]

# What the subprocess begins with; the library is loaded once a process, so each has its own.
PREAMBLE = """
import json, sys
from mansard.core.errors import MansardError
from mansard.device.cards import read_card, read_card_limits
from mansard.device.holding.acting import Actor
from mansard.device.holding.acting import restore_card, set_card
from mansard.device.cards import card_writes, why_not_settable
from mansard.device.power_modes.selection import available_modes, choose_modes
from mansard.device.system import SYSTEM_ROOT
from tests.device.grid_machines import machine

actor = Actor(SYSTEM_ROOT)

def choose(text):
    return choose_modes(text, SYSTEM_ROOT, machine(4, "gpu"))

def show(value):
    print(json.dumps(value))

def say(call, *arguments):
    try:
        call(*arguments)
    except MansardError as error:
        show([type(error).__name__, str(error)])
"""


class Card:
    """A card in a folder: a library, and the file that holds its settings."""

    def __init__(self, folder: Path, *faults: str) -> None:
        self._folder = folder
        self._state = folder / "state"
        library = folder / "libnvidia-ml.so.1"
        defines = [f"-D{fault}" for fault in faults]
        command = ["gcc", "-shared", "-fPIC", f'-DSTATE="{self._state}"', *defines]
        subprocess.run([*command, "-o", library, SOURCE], check=True)

    @property
    def settings(self) -> str:
        """Power limit in mW, locked clock of GPU and memory in MHz."""
        return self._state.read_text().strip() if self._state.exists() else DEFAULT

    def put(self, settings: str) -> None:
        self._state.write_text(settings)

    def run(self, code: str) -> list[Any]:
        """What the code shows, value by value."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self._folder)}
        done = subprocess.run(
            [sys.executable, "-c", PREAMBLE + code],
            env=environment,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
