"""Commands that set a mode, and that measure a program or a network, as words."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.analytics.data.store import is_url
from mansard.core.power_mode import parse_custom_name
from mansard.core.records import ProgramRun
from mansard.core.units import format_frequency
from mansard.device.mode_commands import commands_for, root_of

if TYPE_CHECKING:
    from mansard.analytics.data.frames import Frame
    from mansard.analytics.decisions.mix_records import MixAnswer
    from mansard.analytics.decisions.records import Recommendation
    from mansard.analytics.models.predict.models import Models
    from mansard.analytics.models.scaling.set_aside import SetAside
    from mansard.core.records import ModeCommands


def mode_text(mode: str) -> str:
    """``mode`` as ``--mode`` accepts it: a custom mode as its settings."""
    settings = parse_custom_name(mode)
    if settings is None:
        return mode
    clocks = {"gpu": settings.gpu, "emc": settings.emc, "cpu": settings.cpu}
    parts = [f"{key}={format_frequency(at.hz)}" for key, at in clocks.items() if at is not None]
    if not parts:
        return mode  # a number of cores has a mode of its own
    return ",".join([*parts, *([] if settings.n_cpus is None else [f"cores={settings.n_cpus}"])])


def program_words(program: ProgramRun, *, is_again: bool = False) -> list[str]:
    """The arguments of ``mansard measure`` that repeat a run of ``program``."""
    words = ["--name", program.workload]
    if program.metric_pattern is not None:
        words += ["--metric", program.metric_pattern]
    return [*words, *(["--again"] if is_again else []), "--", *program.command]


def folder_of(runs: Sequence[str]) -> str | None:
    """The folder to measure into: the only one of ``runs``, else the default; None for a URL."""
    folder = runs[0] if len(runs) == 1 else "runs"
    return None if is_url(folder) else folder


def places(runs: str, board: Path | None) -> list[str]:
    """The options ``--board`` and ``--runs``, where they differ from the defaults."""
    on_board = [] if board is None else ["--board", str(board)]
    return [*on_board, *([] if runs == "runs" else ["--runs", runs])]


def again_command(aside: SetAside, model: str, runs: Sequence[str], board: Path | None) -> str:
    """The command that measures a network or program again.

    ``model``: the network's file, or its name.
    """
    run = aside.newest
    where = places(folder_of(runs) or "runs", board)
    words = ["mansard", "measure"]
    has_custom = any(parse_custom_name(mode) is not None for mode in aside.modes)
    modes = ["--mode", ("; " if has_custom else ",").join(map(mode_text, aside.modes))]
    if isinstance(run, ProgramRun):
        return shlex.join([*words, *modes, *where, *program_words(run, is_again=True)])
    return shlex.join([*words, model, "--engine", run.engine, *modes, "--again", *where])


def mode_commands(
    mode: str, answer: Recommendation | MixAnswer, models: Models, modes: Frame, board: Path | None
) -> tuple[ModeCommands | None, dict[str, str]]:
    """The commands that set ``mode`` on the device of ``answer``; and ``unknown`` of the answer.

    That has the reason if there are no commands.
    """
    machine = models.machines.get(answer.device)
    root = None if machine is None else root_of(machine, board)
    clocks = _clocks_of(modes, answer.device, mode)
    commands, why_not = commands_for(mode, answer.device, machine, root, clocks)
    unknown = {name: why for name, why in answer.unknown.items() if name != "commands"}
    return commands, unknown | ({"commands": why_not} if commands is None else {})


def _clocks_of(modes: Frame, device: str, mode: str) -> dict[str, float | None]:
    """The settings of a device's mode, of MODE_SCHEMA."""
    rows = modes.filter(device=device, mode=mode).head(1).to_dicts()
    names = ("gpu_hz", "memory_hz", "cpu_hz", "n_cpus")
    return {name: rows[0][name] for name in names} if rows else {}
