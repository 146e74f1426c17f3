"""A made-up graphics card: a stand-in for NVML, compiled here, and code that runs over it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "nvml_stand_in/settings.c"
CUDA_SOURCE = SOURCE.with_name("cuda.c")
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
from mansard.device.cards import card_writes
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

    def __init__(self, folder: Path, *faults: str, sources: tuple[Path, ...] = ()) -> None:
        self.folder = folder
        self._state = folder / "state"
        library = folder / "libnvidia-ml.so.1"
        defines = [f"-D{fault}" for fault in faults]
        command = ["gcc", "-shared", "-fPIC", f'-DSTATE="{self._state}"', *defines]
        subprocess.run([*command, "-o", library, SOURCE, *sources], check=True)

    def give_cuda(self, *, is_absent: bool = False) -> None:
        """CUDA's driver in the folder, which answers or lets this process use no device."""
        library, defines = self.folder / "libcuda.so.1", ["-DABSENT"] * is_absent
        command = ["gcc", "-shared", "-fPIC", *defines, "-o", str(library), str(CUDA_SOURCE)]
        subprocess.run(command, check=True)

    def take_cupy(self) -> dict[str, str]:
        """Variables with which a process finds no CuPy, also where it is installed."""
        hidden = self.folder / "without-cupy"
        hidden.mkdir()
        (hidden / "cupy.py").write_text("raise ModuleNotFoundError('none', name='cupy')\n")
        return {"PYTHONPATH": str(hidden)}

    @property
    def settings(self) -> str:
        """Power limit in mW, locked clock of GPU and memory in MHz."""
        return self._state.read_text().strip() if self._state.exists() else DEFAULT

    def put(self, settings: str) -> None:
        self._state.write_text(settings)

    def run(self, code: str) -> list[Any]:
        """What the code shows, value by value."""
        done = self._start("-c", PREAMBLE + code, cwd=Path(__file__).parents[2])
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def command(self, *words: str, **variables: str) -> CompletedProcess[str]:
        """``mansard`` with these words on the machine with the card."""
        return self._start("-m", "mansard.cli", *words, cwd=self.folder, **variables)

    def _start(self, *words: str, cwd: Path, **variables: str) -> CompletedProcess[str]:
        state = {"XDG_STATE_HOME": str(self.folder / "state-home")}
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.folder), **state, **variables}
        return subprocess.run(
            [sys.executable, *words],
            env=environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


class WatchedCard(Card):
    """A card that notes every function called which could change it, and then refuses."""

    def __init__(self, folder: Path) -> None:
        self._calls = folder / "calls"
        source = folder / "setters.c"
        source.write_text(_NOTING.replace("CALLS", json.dumps(str(self._calls))))
        names = changing_functions()
        with source.open("a") as text:
            text.writelines(f'int {name}() {{ return note("{name}"); }}\n' for name in names)
        super().__init__(folder, "LOOKED_AT", sources=(source,))

    @property
    def calls(self) -> list[str]:
        """The functions that were called."""
        return self._calls.read_text().split() if self._calls.exists() else []


_NOTING = """
#include <stdio.h>
static int note(const char *name) {
    FILE *file = fopen(CALLS, "a");
    fprintf(file, "%s\\n", name);
    fclose(file);
    return 4; /* NVML_ERROR_NO_PERMISSION */
}
"""


def changing_functions() -> list[str]:
    """Every function that nvidia-ml-py knows and whose name says that it changes something."""
    spec = find_spec("pynvml")
    assert spec is not None
    assert spec.origin is not None
    words = "Set|Reset|Clear|Modify|Create|Destroy|Attach|Detach|Add|Remove|Freeze|Activate"
    names = re.findall(r'"(nvml[A-Za-z0-9_]+)"', Path(spec.origin).read_text())
    return sorted({name for name in names if re.search(f"({words})(?![a-z])", name)})
