"""Power modes: the settings of a machine under which a measurement holds."""

from __future__ import annotations

import re

from mansard.core.errors import UsageError
from mansard.core.records import PowerMode

_CORE_COUNT = re.compile(r"([1-9][0-9]{0,3})c")
_GOVERNED = "left to the system's governor; Mansard does not set it on a plain machine"


def core_count_mode(n_cpus: int) -> PowerMode:
    """The mode of a plain machine that uses ``n_cpus`` cores and leaves clocks alone."""
    return PowerMode(
        name=f"{n_cpus}c",
        n_cpus=n_cpus,
        cpu_hz=None,
        gpu_hz=None,
        memory_hz=None,
        unknown={"cpu_hz": _GOVERNED, "gpu_hz": _GOVERNED, "memory_hz": _GOVERNED},
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
