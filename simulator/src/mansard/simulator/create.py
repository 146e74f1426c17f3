"""Makes a simulated board: a folder that holds all that Mansard reads and writes on a real one.

``snapshot`` is what of it must come back: everything that does not change by itself.
"""

from __future__ import annotations

import json
import os
import py_compile
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import translate
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from mansard.core.errors import DeviceError, StorageError, UsageError, reported
from mansard.core.processes.programs import run_program
from mansard.core.storage.leftovers import temporary_folder
from mansard.simulator.boards import BY_NAME
from mansard.simulator.boards.spec import CLK, BoardSpec
from mansard.simulator.sensors import add_sensors, readings_folder
from mansard.simulator.tools.board import INFO, STATE
from mansard.simulator.tree import (
    Tree,
    add_clocks,
    add_cpus,
    add_engines,
    add_system,
    write_tree,
)

# Files that the kernel, the sensors or the simulator itself change; "*" crosses folders.
READINGS: tuple[str, ...] = (
    "proc/stat",
    "proc/meminfo",
    "proc/uptime",
    "proc/loadavg",
    "sys/devices/system/cpu/online",  # these two follow from the switches
    "sys/devices/system/cpu/offline",
    "sys/devices/system/cpu/cpufreq/*/scaling_cur_freq",
    "sys/devices/system/cpu/cpufreq/*/affected_cpus",
    "sys/devices/*/cur_freq",
    "sys/devices/*/target_freq",
    "sys/devices/*/load",
    "sys/kernel/debug/bpmp/debug/clk/*/rate",
    "sys/kernel/debug/cactmon/*",
    "sys/kernel/actmon_avg_activity/*",
    "sys/devices/virtual/thermal/*/temp",
    "sys/devices/virtual/thermal/*/cur_state",
    "sys/devices/*/hwmon/*/*_input",
    "sys/devices/*/hwmon/*/*_alarm",
    "sys/devices/*/hwmon/*_event_cnt",
    "sys/devices/*/hwmon/*/pwm1",
    "sys/devices/*/hwmon/*/rpm",
    "sys/devices/pwm-fan/*",
    "sys/devices/*/iio:device*/in_*_input",
    "run/mansard-simulator/*",  # faults, load, the daemon's own
    "var/lib/mansard/*",  # Mansard's own journal and lock: not the board's
)
_READING = re.compile("|".join(translate(glob) for glob in READINGS))
_POLICIES = "sys/devices/system/cpu/cpufreq"


def snapshot(root: Path) -> dict[str, bytes]:
    """Path below ``root`` -> content, for all files except readings; raises OSError.

    A link holds its target. The last newline is left out: the kernel puts one behind
    whatever was written, and a file in a folder keeps what it was given. The cpufreq folder
    of a cluster that is off is left out too: it cannot be written before one of its cores is
    on again, and what it held then is set anew (Linux, drivers/cpufreq/cpufreq.c).
    """
    asleep = tuple(f"{_POLICIES}/{name}/" for name in _policies_off(root))
    contents: dict[str, bytes] = {}
    for path in _walk(root):
        name = path.relative_to(root).as_posix()
        if _READING.fullmatch(name) or name.startswith(asleep):
            continue
        contents[name] = (
            b"-> " + os.fsencode(path.readlink())
            if path.is_symlink()
            else path.read_bytes().rstrip(b"\n")
        )
    return contents


def _walk(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        here = Path(folder)
        yield from (here / name for name in sorted(files))
        yield from (here / name for name in sorted(folders) if (here / name).is_symlink())


def _policies_off(root: Path) -> Iterator[str]:
    for folder in sorted((root / _POLICIES).glob("policy*")):
        cpus = (folder / "related_cpus").read_text().split()
        switches = [root / f"sys/devices/system/cpu/cpu{cpu}/online" for cpu in cpus]
        if all(switch.exists() and switch.read_text().strip() == "0" for switch in switches):
            yield folder.name


LIBRARY = "usr/lib/mansard-simulator"
_PACKAGE = "mansard/simulator/tools"
_TOOLS = {
    "nvpmodel": "usr/sbin/nvpmodel",
    "jetson_clocks": "usr/bin/jetson_clocks",
    "tegrastats": "usr/bin/tegrastats",
}
_STUB = """\
# Simulated by Mansard: reads and writes the tree it stands in, and no hardware.
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "{library}"))

from mansard.simulator.tools.{module} import main

sys.exit(main(__file__, sys.argv[1:]))
"""


def create_board(name: str, folder: Path) -> Path:
    """A new simulated board in ``folder``/``name``; returns its root, in its default mode.

    Raises UsageError for a board there is no table of, StorageError where the folder exists
    or cannot be written.
    """
    board = BY_NAME.get(name)
    if board is None:
        raise UsageError(
            f"there is no simulated board {name!r}", fix=f"choose one of: {', '.join(BY_NAME)}"
        )
    root = Path(folder) / name
    with reported(
        StorageError,
        "cannot make a simulated board",
        where=str(root),
        fix="give a folder that is empty and can be written",
    ):
        root.parent.mkdir(parents=True, exist_ok=True)
        if root.exists():
            raise FileExistsError("the folder exists")
        with temporary_folder(root.parent, name) as scratch:  # a kill leaves no incomplete board
            made = scratch / name
            made.mkdir()
            write_tree(board_tree(board), made)
            _install_tools(board, made)
            _boot(board, made, root)
            made.rename(root)
    return root


def board_tree(board: BoardSpec) -> Tree:
    """Everything but the tools, with all cores on and no clock capped."""
    tree = Tree({}, {})
    add_system(tree, board)
    add_cpus(tree, board)
    add_clocks(tree, board)
    add_engines(tree, board)
    add_sensors(tree, board)
    tree.put(f"/{STATE}", {"faults.json": "{}"})
    return tree


def _install_tools(board: BoardSpec, root: Path) -> None:
    package = root / LIBRARY / _PACKAGE
    package.mkdir(parents=True)
    for name, content in _tool_files().items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_bytes(content)
    (root / INFO).write_text(json.dumps(_info(board), indent=1) + "\n")
    library = LIBRARY.removeprefix("usr/")
    for tool, place in _TOOLS.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        stub = _STUB.format(library=library, module=tool)
        path.write_text(_first_lines(sys.executable) + stub)
        path.chmod(0o755)


@cache
def _tool_files() -> dict[str, bytes]:
    """The tools' modules, and their bytecode for this Python: they start in half the time."""
    files = {}
    with tempfile.TemporaryDirectory() as scratch:
        compiled = Path(scratch, "compiled")
        for source in (resources.files("mansard.simulator") / "tools").iterdir():
            name, is_module, _ = source.name.partition(".py")
            if not is_module:
                continue
            with resources.as_file(source) as path:
                py_compile.compile(
                    str(path),
                    cfile=str(compiled),
                    dfile=source.name,
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH,
                )
            files[source.name] = source.read_bytes()
            cached = f"__pycache__/{name}.{sys.implementation.cache_tag}.pyc"
            files[cached] = compiled.read_bytes()
    return files


def _first_lines(python: str) -> str:
    """A shell's, for Python: this machine's, or in a container on it the image's."""
    # Isolated, without site packages (it starts twice as fast) and without writing bytecode,
    # which would change the tree. Python takes these lines for a text, the shell for commands.
    ours = shlex.quote(python)
    return f"""#!/bin/sh
''':'
[ -x {ours} ] && exec {ours} -ISB "$0" "$@"
exec python3 -ISB "$0" "$@"
'''
"""


def _info(board: BoardSpec) -> dict[str, Any]:
    """The facts of the board that its tools use."""
    return {
        "name": board.name,
        "family": board.family,
        "soc": board.compatible[-1].partition(",")[2],
        "cap_max": _highest_caps(board),
        "emc_cap": board.emc_cap,
        "emc_rate": f"{board.bwmgr}/cur_freq" if board.bwmgr else f"{CLK}/emc/rate",
        "bwmgr": board.bwmgr,
        "cactmon": board.cactmon,
        "gpus": [gpu.devfreq for gpu in board.gpus],
        "gpu_folder": board.gpu_folder,
        "n_tpcs": board.n_tpcs,
        "n_gpcs": board.n_gpcs,
        "clocks": {clock.name: clock.cap for clock in board.clocks},
        "zones": [
            (zone, f"/sys/devices/virtual/thermal/thermal_zone{number}/temp")
            for number, zone in enumerate(board.zones)
        ],
        "rails": [
            {
                "label": rail.label,
                "folder": readings_folder(board, monitor),
                "number": number,
                "chip": monitor.chip,
            }
            for monitor in board.monitors
            for number, rail in enumerate(monitor.rails, 1)
            if rail is not None
        ],
    }


def _highest_caps(board: BoardSpec) -> dict[str, int]:
    caps = {clock.cap: clock.max_hz for clock in board.clocks}
    if board.emc_cap:
        caps[board.emc_cap] = board.emc_hz[-1]
    return caps


def _boot(board: BoardSpec, made: Path, root: Path) -> None:
    """Apply the default mode with the board's own tool, as a real one does when it starts."""
    command = [str(made / _TOOLS["nvpmodel"]), "-m", str(board.default)]
    try:
        done = run_program(command, timeout_s=60, error=DeviceError)
    except DeviceError as error:
        raise DeviceError(
            f"its tools cannot run: {error.what}",
            where=str(root),
            fix="give a folder on a file system that lets programs run",
        ) from error
    if done.exit_code or done.complaints:
        said = (done.complaints or done.output).decode("utf-8", "replace")
        raise DeviceError(f"nvpmodel: {said}", where=str(root))
