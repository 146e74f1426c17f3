"""Power modes: the settings of a machine under which a measurement holds, and their names."""

from __future__ import annotations

import math
import re

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import PowerMode
from mansard.core.units import Frequency, format_frequency, parse_frequency

_CORE_COUNT = re.compile(r"([1-9][0-9]{0,3})c")
_GOVERNED = "left to the system's governor; Mansard does not set it on a plain machine"
_NOT_MEASURED = "the CPU is measured"

# What may be set, in the order of a custom mode's name.
CLOCKS = ("gpu", "emc", "cpu", "dla")
_NAME_PART = re.compile(rf"({'|'.join(CLOCKS)})([0-9]+[kMG]?Hz)")


class ModeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be set; what is None stays as it is."""

    gpu: Frequency | None = None
    emc: Frequency | None = None
    cpu: Frequency | None = None
    dla: Frequency | None = None
    n_cpus: int | None = None


def core_count_mode(n_cpus: int) -> PowerMode:
    """The mode of a plain machine that uses ``n_cpus`` cores and leaves clocks alone."""
    clocks = dict.fromkeys(("cpu_hz", "gpu_hz", "memory_hz", "dla_hz"), _GOVERNED)
    return PowerMode(
        name=f"{n_cpus}c",
        kind="cores",
        n_cpus=n_cpus,
        clusters=(),
        cpu_hz=None,
        gpu_hz=None,
        memory_hz=None,
        dla_hz=None,
        n_sms=None,
        power_limit_w=None,
        unknown={**clocks, "n_sms": _NOT_MEASURED, "power_limit_w": _NOT_MEASURED},
    )


def parse_modes(text: str | None, n_cpus: int) -> tuple[PowerMode, ...]:
    """The modes that ``MODE=text`` asks for on a plain machine with ``n_cpus`` cores.

    ``None`` or an empty text means all cores, ``all`` every core count from 1 up,
    and ``2c`` or ``1c,2c`` the counts that it names, each once.
    """
    if not text:
        return (core_count_mode(n_cpus),)
    if text == "all":
        return tuple(core_count_mode(count) for count in range(1, n_cpus + 1))
    names = dict.fromkeys(name.strip() for name in text.split(","))
    return tuple(_parse_core_count(name, n_cpus) for name in names)


def _parse_core_count(name: str, n_cpus: int) -> PowerMode:
    match = _CORE_COUNT.fullmatch(name)
    if match is None or int(match[1]) > n_cpus:
        raise UsageError(
            f"unknown power mode {name!r}",
            fix=f"this machine has 1c to {n_cpus}c, or 'all' for every one",
        )
    return core_count_mode(int(match[1]))


def custom_name(
    n_cpus: int | None,
    *,
    gpu_hz: float | None = None,
    emc_hz: float | None = None,
    cpu_hz: float | None = None,
    dla_hz: float | None = None,
) -> str:
    """The name of a mode that was set clock by clock: ``gpu612MHz_emc2133MHz_cpu1190MHz_4c``.

    What is not known is left out.
    """
    clocks = zip(CLOCKS, (gpu_hz, emc_hz, cpu_hz, dla_hz), strict=True)
    parts = [f"{key}{format_frequency(hz)}" for key, hz in clocks if hz is not None]
    parts += [] if n_cpus is None else [f"{n_cpus}c"]
    return "_".join(parts)


def parse_custom_name(name: str) -> ModeSettings | None:
    """The settings that ``custom_name`` made a name of; None where it is no such name."""
    *clocks, cores = name.split("_")
    match = _CORE_COUNT.fullmatch(cores)
    if match is None:
        return None
    wanted: dict[str, Frequency] = {}
    for part in clocks:
        clock = _NAME_PART.fullmatch(part)
        if clock is None or clock[1] in wanted:
            return None
        try:
            wanted[clock[1]] = parse_frequency(clock[2])
        except UsageError:
            return None
    return ModeSettings(n_cpus=int(match[1]), **wanted)


# NVIDIA's names: 15W, MODE_30W_ALL, 7W_AI, MAXN, MAXN_SUPER, MAXP_CORE_ARM.
_WATTS = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)_?w(?:atts?)?(?:_?([a-z0-9_]*))?", re.ASCII)
_UNCAPPED = re.compile(r"max_?([npq])(?:_?(super|core.*|all|arm|denver))?", re.ASCII)
_MODE_PREFIX = re.compile(r"(?:nvpmodel_|power_)?mode_?(?=\d|max)")


def plain_name(name: str) -> str:
    """``name`` in the one spelling that names of a mode are compared in.

    Case, spaces, dashes and underscores do not matter, nor does NVIDIA's ``MODE_``:
    ``MODE_30W_ALL``, ``30w all`` and ``Mode 30W-ALL`` are one name. ``1.5W`` is not ``15W``.
    """
    text = re.sub(r"[\s_\-\u2010-\u2015]+", "_", name.strip().casefold()).strip("_")
    text = _MODE_PREFIX.sub("", text, count=1) or text
    watts = _WATTS.fullmatch(text)
    if watts is not None:
        rest = (watts[2] or "").replace("_", "")
        return f"{float(watts[1]):g}w{re.sub(r'cores$', 'core', rest)}"
    uncapped = _UNCAPPED.fullmatch(text)
    if uncapped is not None:
        return f"max{uncapped[1]}{(uncapped[2] or '').replace('_', '')}"
    return text


_NUMBER = re.compile(r"(?:mode_|id_?=?_?)?([0-9]{1,2})", re.ASCII)


def mode_number(name: str) -> int | None:
    """The number in ``2``, ``mode 2`` or ``id=2``: what nvpmodel calls a mode; None for a name."""
    match = _NUMBER.fullmatch(plain_name(name))
    return None if match is None else int(match[1])


def nominal_w(mode: str) -> float:
    """The power that one of NVIDIA's modes is named after, W: infinite for MAXN; NaN for others."""
    plain = plain_name(mode)
    if plain in {"maxn", "maxnsuper"}:
        return math.inf
    watts = _WATTS.fullmatch(plain)
    return math.nan if watts is None else float(watts[1])
