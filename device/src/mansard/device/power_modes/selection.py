"""Which modes a sweep visits: ``MODE=…`` of a board, a graphics card or a plain machine.

A plain machine has its core counts, and clocks where cpufreq lists them. A few modes
that stand for many are spread evenly over the space of their settings.

That is a greedy choice by the maximum-projection criterion (Joseph, Gul and Ba, "Maximum projection
designs for computer experiments", Biometrika 102, 2015): each point taken adds the least
to the sum over pairs of 1/Π_k (squared distance in setting k). So points are not only far
from each other, as in a maximin choice, which would take corners alone: each single clock
also gets many values, without which its curve of voltage could not be fitted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mansard.core.errors import UsageError
from mansard.core.power_mode import ModeSettings, core_count_mode, parse_custom_name, parse_modes
from mansard.core.records import MachineIdentity, PowerMode
from mansard.core.units import parse_frequency
from mansard.device.clocks.domains import Domain, find_clusters
from mansard.device.power_modes.custom_modes import SettableModes, is_settings, split_names
from mansard.device.power_modes.grid import grid_points, parse_grid, read_grid
from mansard.device.power_modes.machine_modes import CardModes, JetsonModes
from mansard.device.power_modes.settable import CoreGroup, ModeChoices, Settable, ValueTable, merge

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def spread(points: Sequence[Sequence[float]], n: int, seed: int) -> tuple[int, ...]:
    """The indices of ``n`` of ``points``, ascending: the fastest, the slowest, those between.

    Each setting counts by the logarithm of its value, scaled so that its range is 1, so
    that doubling a clock is one distance wherever it starts. ``seed`` settles ties.
    """
    if n >= len(points):
        return tuple(range(len(points)))
    if n < 1:
        return ()
    import numpy as np

    order = list(range(len(points)))
    random.Random(seed).shuffle(order)  # noqa: S311 - ties go to the first
    scaled = normalise(points)[order]
    speed = scaled.sum(axis=1).round(9)
    fastest = int(speed.argmax())
    slowest = int(np.where(np.arange(len(points)) == fastest, np.inf, speed).argmin())
    taken = [fastest, slowest][:n]
    crowding = np.zeros(len(points))
    for index in taken:
        crowding += _crowding(scaled, index, n)
    while len(taken) < n:
        crowding[taken] = np.inf
        # Rounded, so that ties are ties on every machine.
        taken.append(int(np.log(crowding).round(9).argmin()))
        crowding += _crowding(scaled, taken[-1], n)
    return tuple(sorted(order[index] for index in taken))


def normalise(points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Logarithms of positive values, each column scaled to 0 to 1; a constant one is 0."""
    import numpy as np

    logs = np.log(np.asarray(points, dtype=np.float64))
    low, high = logs.min(axis=0), logs.max(axis=0)
    scaled: NDArray[np.float64] = (logs - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _crowding(scaled: NDArray[np.float64], index: int, n: int) -> NDArray[np.float64]:
    """What each point adds to the criterion beside the one at ``index``.

    The tables are short, so equal values cannot be avoided: they count as a squared
    distance of 1/n², that of neighbours if all ``n`` points had values of their own.
    """
    import numpy as np

    squared = (scaled - scaled[index]) ** 2 + 1 / n**2
    crowding: NDArray[np.float64] = 1 / np.prod(squared, axis=1)
    return crowding


_CAPPED = re.compile(r"([1-9][0-9]{0,3})c@(.+)")
_NO_CPUFREQ = (
    "the kernel shows no clock of the CPU (cpufreq), as is usual in a virtual machine: "
    "choose core counts only, such as 2c, or measure on a machine of its own"
)
_NO_STEPS = "the kernel names neither steps of the CPU's clock nor the ends of its range"
_ANY_USER = "rather than in a container; core counts such as 2c need no permission"
_ACCELERATORS_ONLY = "a plain machine has no such clock; set cpu and cores"


class CpuModes(SettableModes):
    """What a plain machine can be asked for."""

    def present(self) -> PowerMode:
        """All cores, clocks left alone."""
        return core_count_mode(len(self._cpus))

    def available(self) -> tuple[PowerMode, ...]:
        """Every core count, from 1 up."""
        return parse_modes("all", len(self._cpus))

    def named(self, name: str) -> PowerMode:
        """``2c``, ``2c@2000MHz`` or ``cpu2000MHz_2c``; raises UsageError."""
        settings = parse_custom_name(name)
        capped = _CAPPED.fullmatch(name)
        if capped is not None:
            settings = ModeSettings(n_cpus=int(capped[1]), cpu=parse_frequency(capped[2]))
        if settings is None or settings == ModeSettings(n_cpus=settings.n_cpus):
            return parse_modes(name, len(self._cpus))[0]
        return self.custom(settings)

    def read_choices(self) -> ModeChoices:
        """Cores and clocks as the kernel lists them, from the present mode on."""
        clusters = read_clusters(self._root, self._cpus)
        no_clock = ValueTable(why_not=_ACCELERATORS_ONLY)
        return ModeChoices(
            present=self.present(),
            cpus=self._cpus,
            clusters=clusters,
            cpu=merge(tuple(cluster.table for cluster in clusters)),
            gpu=no_clock,
            emc=no_clock,
            dla=no_clock,
        )


def read_clusters(root: Path, cpus: tuple[int, ...]) -> tuple[CoreGroup, ...]:
    """The groups of ``cpus`` that share a clock, in the order of their first CPU."""
    clusters: list[CoreGroup] = []
    left = set(cpus)
    for domain in find_clusters(root):
        ours = tuple(cpu for cpu in cpus if cpu in left and cpu in domain.cpus)
        if ours:
            left.difference_update(ours)
            clusters.append(CoreGroup(ours, _table(domain)))
    if left:
        rest = tuple(cpu for cpu in cpus if cpu in left)
        clusters.append(CoreGroup(rest, ValueTable(why_not=_NO_CPUFREQ)))
    return tuple(sorted(clusters, key=lambda cluster: cluster.cpus))


def _table(domain: Domain) -> ValueTable:
    if domain.why_not:
        return ValueTable(why_not=f"{domain.why_not} {_ANY_USER}")
    if not domain.available_hz:
        return ValueTable(why_not=_NO_STEPS)
    return ValueTable(domain.available_hz, domain.is_continuous)


SEED = 20_130_520  # for the order of a grid; fixed, so that a sweep can be resumed

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
    indices = spread(_coordinates(chosen), pick, seed)
    return tuple(chosen[index] for index in indices)


def names_grid(text: str | None) -> bool:
    """Whether ``MODE=text`` is the name of a grid's file."""
    return (text or "").strip().lower().endswith(".toml")


def _modes_of(text: str, root: Path, machine: MachineIdentity) -> MachineModes:
    if machine.kind == "jetson":
        return JetsonModes(root, machine)
    # A machine with a card is one for the card, unless cores or clocks of the CPU are named.
    if machine.kind == "gpu" and not _CPU_TEXT.match(text):
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
                fix="'mansard board modes' says why; choose clocks, such as gpu=612MHz",
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
    indices = list(range(len(points))) if pick is None else list(spread(points, pick, seed))
    random.Random(seed).shuffle(indices)  # noqa: S311 - an order, not a secret
    keys = tuple(grid.axes)
    return _distinct(modes.make(dict(zip(keys, points[index], strict=True))) for index in indices)


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
