"""The caps that a mode of nvpmodel sets, and which parameter is the clock of which processor."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from mansard.device.nvpmodel.gating import parse_integer
from mansard.device.nvpmodel.sections import KNEXT, Config, ModeSection, Param

UNCAPPED = "uncapped"
NOT_SET = "this mode does not set it"
# "-1 is taken as INT_MAX", says the file's head; the tool prints the maximum of its own
# integer, which was 32 bits wide up to r32 and is 64 bits wide since.
_MAXIMA = frozenset({-1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1})
_CPU_PATH = re.compile(r"/sys/devices/system/cpu/cpu([0-9]{1,3})/cpufreq/[a-z_]+")
_GPU_PATH = re.compile(r"/(?:[0-9a-f]+\.)?(?:gpu|gm20b|gp10b|gv11b|ga10b|gb10b|gpu-gpc-0)/")
_EMC_PATH = re.compile(r"/(?:emc_iso_cap|emc|bwmgr/max_freq)$")
_DLA_NAME = re.compile(r"NAFLL_DLA|DLA[0-9]?_CORE|DLA[0-9]?")


class Cap(msgspec.Struct, frozen=True):
    """A clock's cap in hertz, or the reason why there is none."""

    hz: float | None
    why: str


def read_cap(section: ModeSection, param: Param) -> Cap:
    """What ``section`` sets the highest clock of ``param`` to.

    CPU clocks are written in kHz, all others in Hz. Zero stands for no cap: so it does for
    EMC up to r35, and no clock runs at 0 Hz.
    """
    text = section.value(param.name, "MAX_FREQ")
    if text is None:
        text = section.value(param.name, f"MAX_FREQ{KNEXT}")
    if text is None:
        return Cap(None, NOT_SET)
    value = parse_integer(text)
    if value is None or value < -1:
        return Cap(None, f"the configuration sets it to {text!r}, which is no clock")
    if value == 0 or value in _MAXIMA:
        return Cap(None, UNCAPPED)
    return Cap(float(value * 1000 if is_cpu(param) else value), "")


def is_cpu(param: Param) -> bool:
    """Whether it is the clock of CPUs: its values are in kHz."""
    return param.kind == "CLOCK" and (first_cpu(param) is not None or param.name[:4] == "CPU_")


def undeclared(config: Config) -> tuple[Param, ...]:
    """Clocks that modes set though nothing declares them, as in a dump without its head."""
    known = {param.name for param in config.params}
    names = dict.fromkeys(
        setting.param
        for section in config.modes
        for setting in section.settings
        if setting.argument == "MAX_FREQ" and setting.param not in known
    )
    return tuple(Param("CLOCK", name, {}) for name in names)


def first_cpu(param: Param) -> int | None:
    """The CPU whose cpufreq folder the clock's cap is in; None for any other clock."""
    if param.kind != "CLOCK":
        return None
    found = filter(None, map(_CPU_PATH.fullmatch, _max_paths(param)))
    return next((int(match[1]) for match in found), None)


def _max_paths(param: Param) -> tuple[str, ...]:
    """Where its cap is written: the paths that tell which clock it is."""
    names = ("MAX_FREQ", f"MAX_FREQ{KNEXT}")
    return tuple(param.arguments[name] for name in names if name in param.arguments)


class ClockParams(msgspec.Struct, frozen=True):
    """The parameters that cap the clocks of the CPUs, the GPU, the memory and the DLAs."""

    cpus: tuple[Param, ...]
    gpu: Param | None
    emc: Param | None
    dla: tuple[Param, ...]  # the cores' clocks, whatever the release calls them


def clock_params(config: Config) -> ClockParams:
    """The clocks of a configuration, by name and where that says nothing by path."""
    clocks = [param for param in config.params if param.kind == "CLOCK"]
    clocks += undeclared(config)
    return ClockParams(
        cpus=tuple(param for param in clocks if is_cpu(param)),
        gpu=_clock(clocks, "GPU", _GPU_PATH),
        emc=_clock(clocks, "EMC", _EMC_PATH),
        dla=tuple(param for param in clocks if _DLA_NAME.fullmatch(param.name)),
    )


def _clock(clocks: Iterable[Param], name: str, path: re.Pattern[str]) -> Param | None:
    by_path = None
    for param in clocks:
        if param.name == name:
            return param
        if by_path is None and any(path.search(one) for one in _max_paths(param)):
            by_path = param
    return by_path


def lowest(caps: Iterable[Cap], without: str) -> Cap:
    """The cap that holds for all of them; ``without`` is the reason where there are none."""
    known = tuple(caps)
    if (unset := next((cap for cap in known if cap.why == NOT_SET), None)) is not None:
        return unset
    clocks = [cap for cap in known if cap.hz is not None]
    if clocks:
        return min(clocks, key=lambda cap: cap.hz or 0)
    return known[0] if known else Cap(None, without)
