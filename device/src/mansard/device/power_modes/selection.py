"""Which modes a sweep visits: ``MODE=…`` of a board, a graphics card or a plain machine."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from mansard.core.errors import UsageError
from mansard.core.records import MachineIdentity, PowerMode
from mansard.device.power_modes.cpu_modes import CpuModes
from mansard.device.power_modes.custom_modes import is_settings, split_names
from mansard.device.power_modes.grid import grid_points, parse_grid, read_grid
from mansard.device.power_modes.settable import Settable
from mansard.device.power_modes.space_filling import spread

SEED = 20_130_520  # of the order of a grid; fixed, so that a sweep can be resumed

_CPU_TEXT = re.compile(r"\s*([0-9]+c|cpu|cores)", re.IGNORECASE)


class MachineModes(Protocol):
    """What one kind of machine can be asked for."""

    def present(self) -> PowerMode:
        """The mode that an empty ``MODE`` means."""
        ...

    def available(self) -> tuple[PowerMode, ...]:
        """The modes that ``all`` means."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What a list of the modes does not say."""
        ...

    def named(self, name: str) -> PowerMode:
        """The mode of a name; raises UsageError that lists the real ones."""
        ...

    def settings(self, text: str) -> tuple[PowerMode, ...]:
        """The modes of ``key=value`` texts, separated by ';'; raises UsageError."""
        ...

    def choices(self) -> Settable:
        """What a grid may set; raises UsageError or DeviceError."""
        ...

    def make(self, values: Mapping[str, float]) -> PowerMode:
        """The mode that one point of a grid is, by the keys of its axes."""
        ...


def available_modes(root: Path, machine: MachineIdentity) -> tuple[PowerMode, ...]:
    """The modes that ``all`` means on ``machine``; raises InputError or DeviceError."""
    return _modes_of("", root, machine).available()


def mode_notes(root: Path, machine: MachineIdentity) -> tuple[str, ...]:
    """What the list of ``available_modes`` does not say, in sentences; raises as it does."""
    return _modes_of("", root, machine).notes()


def choose_modes(
    text: str | None,
    root: Path,
    machine: MachineIdentity,
    *,
    pick: int | None = None,
    seed: int = SEED,
    grid: str | None = None,
) -> tuple[PowerMode, ...]:
    """The modes that ``MODE=text`` asks for on ``machine``, none of them twice.

    Names keep their order; the modes of a grid file come in a random order that ``seed``
    repeats. ``pick`` keeps that many of them, spread evenly. ``grid`` is what the file holds
    that ``text`` names, where it lies on another machine. Raises UsageError, InputError
    (the file), StorageError or DeviceError.
    """
    if pick is not None and pick < 1:
        raise UsageError(f"cannot pick {pick} modes", fix="pick 1 or more")
    text = (text or "").strip()
    modes = _modes_of(text, root, machine)
    if names_grid(text):
        return _grid_modes(Path(text), grid, modes, pick, seed)
    chosen = _distinct(_listed(text, modes))
    if pick is None or pick >= len(chosen):
        return chosen
    kept = spread(_coordinates(chosen), pick, seed)
    return tuple(chosen[index] for index in kept)


def names_grid(text: str | None) -> bool:
    """Whether ``MODE=text`` is the name of a grid's file."""
    return (text or "").strip().lower().endswith(".toml")


def _modes_of(text: str, root: Path, machine: MachineIdentity) -> MachineModes:
    if machine.kind == "jetson":
        from mansard.device.power_modes.jetson_modes import JetsonModes

        return JetsonModes(root, machine)
    # A machine with a card is one for the card, unless cores or clocks of the CPU are named.
    if machine.kind == "gpu" and not _CPU_TEXT.match(text):
        from mansard.device.power_modes.card_modes import CardModes

        return CardModes(root, machine)
    return CpuModes(root, machine)


def _listed(text: str, modes: MachineModes) -> tuple[PowerMode, ...]:
    if not text or text.lower() == "present":
        return (modes.present(),)
    if text.lower() == "all":
        available = modes.available()
        if not available:
            raise UsageError(
                "no mode of its nvpmodel.conf is one of this module",
                fix="'mansard modes' says why; choose clocks, such as gpu=612MHz",
            )
        return available
    if is_settings(text):
        return modes.settings(text)
    return tuple(modes.named(name) for name in split_names(text))


def _grid_modes(
    path: Path, content: str | None, modes: MachineModes, pick: int | None, seed: int
) -> tuple[PowerMode, ...]:
    choices = modes.choices()
    grid = read_grid(path, choices) if content is None else parse_grid(content, path, choices)
    points = grid_points(grid, choices)
    kept = list(range(len(points))) if pick is None else list(spread(points, pick, seed))
    random.Random(seed).shuffle(kept)  # noqa: S311 - an order, not a secret
    keys = tuple(grid.axes)
    return _distinct(modes.make(dict(zip(keys, points[index], strict=True))) for index in kept)


def _distinct(modes: Iterable[PowerMode]) -> tuple[PowerMode, ...]:
    """Each mode once: what tells modes apart are their name and their settings."""
    return tuple({(mode.name, *_settings(mode)): mode for mode in modes}.values())


def _settings(mode: PowerMode) -> tuple[float | None, ...]:
    clocks = (mode.gpu_hz, mode.memory_hz, mode.cpu_hz, mode.dla_hz)
    return (mode.n_cpus, *clocks, mode.n_sms, mode.power_limit_w)


def _coordinates(modes: tuple[PowerMode, ...]) -> list[tuple[float, ...]]:
    """The modes as points; a clock without a cap counts as the highest that is known."""
    columns = []
    for values in zip(*map(_settings, modes), strict=True):
        highest = max((value for value in values if value), default=1.0)
        columns.append([value or highest for value in values])
    return list(zip(*columns, strict=True))
