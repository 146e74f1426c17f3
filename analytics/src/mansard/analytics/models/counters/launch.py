"""One kernel launch of an export: its name, its grid, and the metrics that are used.

Numbers are in base units: seconds are ns in Nsight Compute's tables, here s. Exports of one tool
differ: "15,136" with base units (ns, byte, hz) or "0.015136" with scaled ones (ms, Kbyte, Ghz), and
in languages with a decimal comma "15.136,0". One file has one style.

The command line writes units into a row of their own, the GUI into the header: "Duration [us]".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from mansard.core.errors import InputError

# What the tool prints where a metric could not be collected.
_ABSENT = frozenset({"", "-", "n/a", "(!) n/a", "nan", "no data"})
# What some languages write between thousands.
_GROUPS = re.compile("[\u00a0\u2007\u2009\u202f '\u2019]")
# What follows a value: its instances, "12 (5; 7)", or the change from a baseline, "12 (+3.1%)".
_INSTANCES = re.compile(r"\s*[({].*$")
# Numbers that only one of both styles can write: no group begins with 0 or has other than 3 digits.
_POINT = re.compile(
    r"^\d{1,3}(,\d{3})+\.\d*$|^\d*\.(\d{1,2}|\d{4,})$|^0?\.\d+$|^\d{1,3}(,\d{3}){2,}$"
)
_COMMA = re.compile(
    r"^\d{1,3}(\.\d{3})+,\d*$|^\d*,(\d{1,2}|\d{4,})$|^0?,\d+$|^\d{1,3}(\.\d{3}){2,}$"
)
_WHOLE_POINT, _WHOLE_COMMA = re.compile(r"\d{1,3}(,\d{3})+"), re.compile(r"\d{1,3}(\.\d{3})+")
MOST = 1e24  # of any count; more is an error of the file


def plain_number(text: str) -> str | None:
    """The digits of a cell, in the file's style; None where it has no number."""
    bare = _INSTANCES.sub("", text.strip())
    return None if bare.casefold() in _ABSENT else _GROUPS.sub("", bare)


def has_decimal_comma(
    texts: Iterable[str], where: str, *, whole: Iterable[str] = (), usual: bool = False
) -> bool:
    """Whether the numbers of one file are written as "1.234,5"; raises InputError where both are.

    "15,136" alone may be either. Then ``whole`` decides: numbers without a fraction, whose comma or
    point separates thousands. Else the answer is ``usual``.
    """
    point = comma = None
    for text in texts:
        bare = plain_number(text)
        if bare is None:
            continue
        if _POINT.match(bare):
            point = bare
        elif _COMMA.match(bare):
            comma = bare
    if point is not None and comma is not None:
        raise InputError(
            f"has the decimal sign of two languages: {point[:40]!r} and {comma[:40]!r}",
            where=where,
            fix="export it again in one language (LC_ALL=C ncu …)",
        )
    if point is not None or comma is not None:
        return comma is not None
    counts = [bare for text in whole if (bare := plain_number(text)) is not None]
    if any(_WHOLE_POINT.fullmatch(bare) for bare in counts):
        return False
    return usual or any(_WHOLE_COMMA.fullmatch(bare) for bare in counts)


def parse_number(text: str, *, comma: bool) -> float | None:
    """The number of a cell; None where the tool had none. Raises ValueError for anything else."""
    bare = plain_number(text)
    if bare is None:
        return None
    value = float(bare.replace(".", "").replace(",", ".") if comma else bare.replace(",", ""))
    if not math.isfinite(value) or not 0 <= value <= MOST:
        raise ValueError(text)
    return value


def half_step(text: str, value: float, *, comma: bool) -> float:
    """The relative rounding error of ``value``, printed as ``text``: 0.005 / 1.25 for "1.25"."""
    decimal, group = (",", ".") if comma else (".", ",")
    whole, _, decimals = (plain_number(text) or "").partition(decimal)
    if not value or not f"{whole}{decimals}".replace(group, "").isdigit():
        return 0.0  # an exponent: a script wrote it, with all digits
    return 0.5 * 10.0 ** -len(decimals) / value


_PREFIXES = MappingProxyType(
    {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
)
_SECONDS = MappingProxyType(
    {
        **dict.fromkeys(("s", "second"), 1.0),
        **dict.fromkeys(("ms", "msecond"), 1e-3),
        **dict.fromkeys(("us", "usecond", "\u00b5s"), 1e-6),
        **dict.fromkeys(("ns", "nsecond"), 1e-9),
    }
)
_COUNTED = re.compile(
    r"([KkMGTP]?)(hz|Hz|[Bb]yte|inst|sector|cycle|thread|warp|block|request|SM|register|wavefront)s?"
)


def unit_factor(unit: str) -> float | None:
    """What a value in ``unit`` is multiplied by to be in SI and single counts; None: unknown unit.

    K is 1000: ``launch__shared_mem_config_size`` of 16.384 Kbyte is 16,384 bytes.
    """
    if unit in ("", "%"):
        return 1.0
    above, _, below = unit.partition("/")
    numerator = _factor(above.strip())
    denominator = _factor(below.strip()) if below else 1.0
    return None if numerator is None or denominator is None else numerator / denominator


def _factor(word: str) -> float | None:
    if word in _SECONDS:
        return _SECONDS[word]
    match = _COUNTED.fullmatch(word)
    return _PREFIXES[match[1]] if match else None


def base_factor(metric: str) -> float:
    """The factor of a value without a unit: Nsight Compute's base unit of a time is ns."""
    return 1e-9 if metric.startswith("gpu__time_duration") else 1.0


_BRACKETS = re.compile(r"\s*\[([^\[\]]*)\]$")


def split_unit(column: str) -> tuple[str, str]:
    """The name and the unit of a GUI column such as ``Duration [us]``; the unit may be empty."""
    match = _BRACKETS.search(column)
    return (column[: match.start()], match[1].strip()) if match else (column, "")


_TRIPLE = re.compile(r"\(?\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)?")


def triple(text: str) -> tuple[int, int, int] | None:
    """``(2, 256, 1)`` of a grid or a block; None of other text, and of a graph's (0, 0, 0)."""
    match = _TRIPLE.fullmatch(text.strip())
    if match is None or any(len(digits) > 10 for digits in match.groups()):
        return None
    sizes = int(match[1]), int(match[2]), int(match[3])
    return sizes if all(sizes) else None


def capability(text: str) -> int | None:
    """``8.7`` as 87."""
    match = re.fullmatch(r"(\d{1,2})\.(\d)", text.strip())
    return 10 * int(match[1]) + int(match[2]) if match else None


@dataclass(frozen=True)
class ProfiledLaunch:
    """``metrics``: in SI and single counts, by their full names; absent ones were not counted.

    ``steps``: relative rounding errors of metrics, by the digits that were printed.
    """

    line: int
    kernel: str
    metrics: Mapping[str, float]
    n_launches: int = 1
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    compute_capability: int | None = None
    nvtx: tuple[str, ...] | None = None
    steps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Export:
    """A file as it was read. ``form``: which page of which tool; ``notes``: a line each."""

    form: str
    launches: tuple[ProfiledLaunch, ...]
    notes: tuple[str, ...] = field(default=())


LEAST_S, MOST_S = 1e-9, 86400.0  # of a launch: a ns, a day
_WANTED = re.compile(
    r"gpu__time_duration(?:_measured_(?:user|wallclock))?"
    r"|(?:sm|smsp|gpc|lts|dram)__cycles_elapsed|sm__cycles_active"
    r"|derived__smsp__sass_thread_inst_executed_op_[dfh]fma_pred_on_x[24]"
    r"|(?:sm|smsp)__sass_thread_inst_executed_op_[dfh](?:fma|add|mul)2?_pred_on"
    r"|sm__ops_path_tensor_\w+|sm__pipe_tensor(?:_op_[hid]mma)?_cycles_active"
    r"|(?:sm|smsp)__inst_executed_pipe_(?:tensor(?:_op_[hid]mma(?:_type_hfma2)?)?|fma_type_fp16|fp16)"
    r"|dram__(?:bytes|sectors)(?:_op)?(?:_read|_write)?|l1tex__t_bytes"
    r"|lts__d_sectors_fill_sysmem|lts__t_sectors_aperture_sysmem_op_(?:read|write)"
    r"|lts__t_(?:bytes|sectors)|lts__t_sectors_srcunit_tex_op_(?:read|write)"
    r"|launch__sm_count|device__attribute_(?:multiprocessor_count|l2s_count|integrated)"
)
# Labels of the details page -> the metric that each shows. "SM Frequency" is the clock of the GPCs
# since 2023; the files that were compared with their raw pages agree.
_LABELS = MappingProxyType(
    {
        "Duration": "gpu__time_duration.sum",
        "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
        "Elapsed Cycles": "gpc__cycles_elapsed.max",
        "Total SM Elapsed Cycles": "sm__cycles_elapsed.sum",
        "SM Active Cycles": "sm__cycles_active.avg",
        "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
        "# SMs": "launch__sm_count",
    }
)
METRIC_NAME = re.compile(r"[a-z0-9]+__\w+(?:\.\w+)*")
_LABEL_AND_NAME = re.compile(rf".{{0,200}}\(({METRIC_NAME.pattern})\)")


def is_used(column: str) -> bool:
    """Whether a column is kept: any but those of metrics that nothing is made of."""
    return METRIC_NAME.fullmatch(column) is None or wanted(column) is not None


_RATES = (".per_second", ".per_cycle_elapsed", "_x2", "_x4")


def is_rate(metric: str) -> bool:
    """Whether missing counts can be computed from it: rates, clocks, and durations."""
    return metric.endswith(_RATES) or metric.startswith("gpu__time_duration")


# Of the section "Memory Workload Analysis"; that of "Speed Of Light" is a percentage of a peak.
_BANDWIDTH = ("Memory Throughput", re.compile(r"[KMGT]?byte/s(?:econd)?"))


@lru_cache(maxsize=1 << 16)
def wanted(name: str, unit: str = "") -> str | None:
    """The metric that a column or a label stands for, if it is used.

    ``Duration (gpu__time_duration.sum)`` is what ``--print-metric-name label-name`` writes.
    """
    if name == _BANDWIDTH[0] and _BANDWIDTH[1].fullmatch(unit):
        return "dram__bytes.sum.per_second"
    match = _LABEL_AND_NAME.fullmatch(name)
    name = match[1] if match else _LABELS.get(name, name)
    return name if _WANTED.fullmatch(name.partition(".")[0]) else None
