"""Shell commands that set a power mode and undo it, in the words of nvpmodel and nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.core.hardware import boards_called
from mansard.core.power_mode import parse_custom_name
from mansard.core.records import MachineIdentity, ModeCommands
from mansard.device.holding.acting import MachineStep, planned_steps
from mansard.device.identity import identify
from mansard.device.nvpmodel.tool import query
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT, below, read_text

# What NVIDIA calls its modes: MAXN, MAXN_SUPER, 15W, MODE_30W_6CORE, MAXP_CORE_ARM.
_NVPMODEL_NAME = re.compile(r"(MODE_)?(MAX[NPQ]|[0-9]+(\.[0-9]+)?W)([_A-Z0-9].*)?", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,40}")  # what needs no quoting in a pattern
_CARD_PART = re.compile(r"(power|gpu|emc)([0-9.]+)(W|MHz)")
_CORES = re.compile(r"([0-9]+)c")
_LOCKED = (
    "the runs were measured with clocks held at the mode's caps: 'sudo jetson_clocks' holds them "
    "too, and a governor may stay below"
)
_BY_NAME = "numbers of modes differ between boards: the name is looked up"
_REBOOT = "where nvpmodel asks for a reboot, the mode gates parts of the GPU: see docs/use/modes.md"
_ON_THE_BOARD = "the clocks' files are the board's own: run the same command on the board"


def commands_for(
    mode: str,
    device: str,
    machine: MachineIdentity | None,
    root: Path | None,
    clocks: Mapping[str, float | None] | None = None,
) -> tuple[ModeCommands | None, str]:
    """Commands that set ``mode`` on ``machine`` and undo it; else None and the reason.

    ``clocks``: gpu_hz, memory_hz, cpu_hz and n_cpus of the mode, as far as they are known; a mode
    that is called unlike NVIDIA's is set by them.

    Of a published ``device`` no machine is known; of a Jetson its tool still is. ``root``: the
    machine's own root folder where it is at hand; then the lines hold the numbers, paths and
    present values that are read there. Nothing is set.
    """
    kind = machine.kind if machine is not None else "published"
    is_jetson = "jetson" in device.casefold() or bool(boards_called(device))
    if kind == "jetson" or (kind == "published" and is_jetson):
        return _of_jetson(mode, machine, root, clocks or {})
    if machine is None:
        return (
            None,
            "the device was not measured here, so the commands that set its modes are unknown",
        )
    cores = _CORES.fullmatch(mode)
    if cores is not None:
        return _cores(int(cores[1]), machine), ""
    if machine.kind == "gpu":
        return _card(mode)
    return _at_hand(mode, machine, root)


def _of_jetson(
    mode: str,
    machine: MachineIdentity | None,
    root: Path | None,
    clocks: Mapping[str, float | None],
) -> tuple[ModeCommands | None, str]:
    if machine is not None and root is not None:
        return _at_hand(mode, machine, root)
    if not _NVPMODEL_NAME.fullmatch(mode) and (commands := _caps(clocks)) is not None:
        return commands, ""
    return _elsewhere(
        mode, (_BY_NAME, _REBOOT) if machine is None else (_BY_NAME, _LOCKED, _REBOOT)
    )


# The files that cap each clock, and what 1 in them is worth in Hz; see clocks/.
_CAP_FILES = (
    ("gpu", "gpu_hz", "/sys/class/devfreq/*g[apv]*/max_freq", 1),
    ("emc", "memory_hz", "/sys/kernel/nvpmodel_*_cap/emc*", 1),
    ("cpu", "cpu_hz", "/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq", 1000),
)
_BY_CAPS = (
    "the mode is a choice of clocks, none of nvpmodel's: each must be one that the kernel lists "
    "('mansard board modes' on the board)"
)
_UNLOCKED = (
    "clocks that 'sudo jetson_clocks' holds are let go first: 'sudo jetson_clocks --restore'"
)


def _caps(clocks: Mapping[str, float | None]) -> ModeCommands | None:
    """Writes of the caps of a Jetson that is not at hand, by the places where its files are."""
    set_lines, undo_lines, settings = [], [], []
    for name, field, files, unit_hz in _CAP_FILES:
        hz = clocks.get(field)
        if hz is None:
            continue
        set_lines.append(f"was_{name}=$(cat {files} | head -n 1)")
        set_lines.append(f"echo {round(hz / unit_hz)} | sudo tee {files}")
        undo_lines.append(f'echo "$was_{name}" | sudo tee {files}')
        settings.append(f"{name}={hz / 1e6:.0f}MHz")
    if not settings:
        return None
    n_cpus = clocks.get("n_cpus")
    cores = (f"the mode has {n_cpus:.0f} cores on",) if n_cpus else ()
    measured = f"'mansard bench --mode {','.join(settings)}' holds the same while it measures"
    return ModeCommands(
        set_lines=tuple(set_lines),
        undo_lines=tuple(reversed(undo_lines)),
        notes=(_BY_CAPS, *cores, _UNLOCKED, measured),
    )


def root_of(machine: MachineIdentity, board: Path | None) -> Path | None:
    """The root folder of ``machine`` where it is at hand: --board's, or this machine's own."""
    root = board or SYSTEM_ROOT
    try:
        here = identify(root)
    except MansardError:
        return None
    if here.machine_hash is None and board is None:
        return None  # it cannot be distinguished from another board of this kind
    same = (here.name, here.machine_hash, here.is_simulated)
    return root if same == (machine.name, machine.machine_hash, machine.is_simulated) else None


def _at_hand(
    mode: str, machine: MachineIdentity, root: Path | None
) -> tuple[ModeCommands | None, str]:
    if root is None:
        return None, _ON_THE_BOARD
    try:
        wanted, *others = choose_modes(mode, root, machine)
        if others:  # a name from outside that means several modes here
            return None, f"{mode!r} is not the name of one mode"
        steps = planned_steps(root, wanted)
        if wanted.kind == "nvpmodel":
            return _nvpmodel(steps, root), ""
    except MansardError as error:
        return None, str(error)
    return _writes(steps, root)


def _nvpmodel(steps: Sequence[MachineStep], root: Path) -> ModeCommands:
    (step,) = [candidate for candidate in steps if candidate.kind == "nvpmodel"]
    now = query(root).id
    undo = "sudo nvpmodel -m NUMBER" if now is None else f"sudo nvpmodel -m {now}"
    return ModeCommands(
        set_lines=(f"sudo nvpmodel {step.value}",),
        undo_lines=(undo,),
        notes=(_LOCKED, _REBOOT),
    )


def _writes(steps: Sequence[MachineStep], root: Path) -> tuple[ModeCommands | None, str]:
    """Settings of files; undone in reverse order, so that no minimum passes its maximum."""
    before = [(step.target, read_text(below(root, step.target))) for step in steps]
    unread = [path for path, value in before if value is None]
    if unread:
        return None, f"{unread[0]} cannot be read here: run as root, so that it can be undone"
    return ModeCommands(
        set_lines=tuple(_write(step.target, step.value) for step in steps),
        undo_lines=tuple(_write(path, str(value).strip()) for path, value in reversed(before)),
        notes=("'mansard bench --mode NAME' sets the mode, measures and undoes it",),
    ), ""


def _write(path: str, value: str) -> str:
    return f"echo {value} | sudo tee {path}"


def _elsewhere(mode: str, notes: tuple[str, ...]) -> tuple[ModeCommands | None, str]:
    """A Jetson that is not at hand: its numbers of modes are looked up when the lines are run."""
    if parse_custom_name(mode) is not None or not _PLAIN_NAME.fullmatch(mode):
        return None, _ON_THE_BOARD
    # The only characters of a plain name that are special to sed.
    name = re.sub(r"[.+]", r"\\\g<0>", mode.removeprefix("MODE_"))
    find = rf"s/^< *POWER_MODEL +ID=([0-9]+) +NAME=(MODE_)?{name} *>.*/\1/p"
    return ModeCommands(
        set_lines=(
            "was=$(sudo nvpmodel -q | grep -E '^[0-9]+$')",
            f"sudo nvpmodel -m \"$(sed -nE '{find}' /etc/nvpmodel.conf)\"",
        ),
        undo_lines=('sudo nvpmodel -m "$was"',),
        notes=notes,
    ), ""


def _cores(n_cpus: int, machine: MachineIdentity) -> ModeCommands:
    cpus = ",".join(str(cpu) for cpu in machine.cpus[:n_cpus])
    return ModeCommands(
        set_lines=(f"taskset -c {cpus} PROGRAM",),
        undo_lines=(),
        notes=("it holds for that program alone: there is nothing to undo",),
    )


_SMI_OPTIONS = {"power": "-pl", "gpu": "-lgc", "emc": "-lmc"}
_SMI_UNDO = {
    "power": '-pl "$(nvidia-smi -i 0 --query-gpu=power.default_limit '
    '--format=csv,noheader,nounits)"',
    "gpu": "-rgc",
    "emc": "-rmc",
}


def _card(mode: str) -> tuple[ModeCommands | None, str]:
    parts = [_CARD_PART.fullmatch(part) for part in mode.split("_")]
    settings = [part for part in parts if part is not None]
    if len(settings) < len(parts):
        return None, f"{mode} names no settings of a graphics card"
    return ModeCommands(
        set_lines=tuple(
            f"sudo nvidia-smi -i 0 {_SMI_OPTIONS[key[1]]} {key[2]}" for key in settings
        ),
        undo_lines=tuple(f"sudo nvidia-smi -i 0 {_SMI_UNDO[key[1]]}" for key in settings),
        notes=("undoing takes the default limit and unlocks the clocks",),
    ), ""
