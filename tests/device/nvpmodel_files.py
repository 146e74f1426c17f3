"""Small configurations and boards for the tests of nvpmodel, with figures made up by hand."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

PARAMS = """
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online
CORE_1 /sys/devices/system/cpu/cpu1/online
CORE_2 /sys/devices/system/cpu/cpu2/online
CORE_3 /sys/devices/system/cpu/cpu3/online

< PARAM TYPE=FILE NAME=TPC_POWER_GATING >
TPC_PG_MASK /sys/devices/gpu.0/tpc_pg_mask
TPC_PG_MASK_KNEXT /sys/devices/platform/gpu.0/tpc_pg_mask

< PARAM TYPE=CLOCK NAME=CPU_A78_0 >
MAX_FREQ /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq

< PARAM TYPE=CLOCK NAME=CPU_A78_1 >
MAX_FREQ /sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq

< PARAM TYPE=CLOCK NAME=GPU >
MAX_FREQ /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq

<PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_clk_cap/emc

< PARAM TYPE=CLOCK NAME=DLA0_CORE >
MAX_FREQ /sys/devices/platform/13e40000.host1x/15880000.nvdla0/acm/clk_cap/dla0_core
"""
MODES = """
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 1
CPU_ONLINE CORE_3 1
TPC_POWER_GATING TPC_PG_MASK 0
CPU_A78_0 MAX_FREQ -1
CPU_A78_1 MAX_FREQ -1
GPU MAX_FREQ -1
EMC MAX_FREQ 0
DLA0_CORE MAX_FREQ -1

< POWER_MODEL ID=7 NAME=MODE_15W >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 1
CPU_ONLINE CORE_3 0
TPC_POWER_GATING TPC_PG_MASK 248
CPU_A78_0 MAX_FREQ 1113600
CPU_A78_1 MAX_FREQ 729600
GPU MAX_FREQ 408000000
EMC MAX_FREQ 3199000000
DLA0_CORE MAX_FREQ 614400000

< PM_CONFIG DEFAULT=7 >
"""
CONFIG = PARAMS + MODES

# Plays nvpmodel on a folder: its own file's folder tells the root. What it says before a
# reboot is what boards were seen to say.
TOOL = """
import pathlib, sys
root = pathlib.Path(__file__).parents[2]
status = root / "var/lib/nvpmodel/status"
names = {names!r}
if sys.argv[1] == "-q":
    number = int(status.read_text().split(":")[1])
    print({before!r}, end="")
    print(f"NV Power Mode: {{names[number]}}")
    print(number)
    print({after!r}, end="")
else:
    wanted = int(sys.argv[2])
    if wanted in {reboots!r}:
        print("NVPM WARN: Golden image context is already created")
        print(f"NVPM WARN: Reboot required for changing to this power mode: {{wanted}}")
        print("NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:", flush=True)
        answer = sys.stdin.readline().strip()
        (root / "answers").open("a").write(answer + "\\n")
        if answer not in ("YES", "yes"):
            print("NVPM ERROR: bad input!")
            sys.exit("NVPM ERROR: optMask is 1, no request for power mode")
        (root / "rebooted").touch()
    elif wanted in {refused!r}:
        sys.exit("NVPM ERROR: failed to set power mode!")
    else:
        status.write_text(f"pmode:{{wanted:04d}}")
"""


def write(root: Path, path: str, text: str) -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def write_tool(root: Path, body: str) -> Path:
    """An executable root/usr/sbin/nvpmodel; it gets the Python that runs the tests."""
    tool = write(root, "usr/sbin/nvpmodel", f"#!{sys.executable}\n{body}")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


def make_board(
    root: Path,
    *,
    present: int = 7,
    before: str = "",
    after: str = "",
    reboots: tuple[int, ...] = (),
    refused: tuple[int, ...] = (),
) -> Path:
    """A board with the configuration above, and a tool that sets its modes."""
    write(root, "etc/nvpmodel.conf", CONFIG)
    write(root, "var/lib/nvpmodel/status", f"pmode:{present:04d}")
    names = {0: "MAXN", 7: "MODE_15W"}
    write_tool(
        root,
        TOOL.format(names=names, before=before, after=after, reboots=reboots, refused=refused),
    )
    return root
