"""The plainest parser: a regular expression for each field, over each line, into a dict.

As people write it in their scripts; it knows the fields of r32 to r36 and drops the rest.
"""

from __future__ import annotations

import re
from typing import Any

_RAM = re.compile(r"RAM (\d+)/(\d+)MB \(lfb (\d+)x(\d+)MB\)")
_SWAP = re.compile(r"SWAP (\d+)/(\d+)MB \(cached (\d+)MB\)")
_CPU = re.compile(r"CPU \[(.*?)\]")
_CORE = re.compile(r"(\d+)%@(\d+)|off")
_EMC = re.compile(r"EMC_FREQ (\d+)%(?:@(\d+))?")
_GPU = re.compile(r"GR3D_FREQ (\d+)%(?:@\[?(\d+))?")
_APE = re.compile(r"APE (\d+)")
_TEMPERATURE = re.compile(r"(\w+)@(-?[\d.]+)C")
_RAIL = re.compile(r"(\w+) (-?\d+)(?:mW)?/(-?\d+)(?:mW)?(?!MB)\b")


def parse(line: str) -> dict[str, Any]:
    """The numbers of one line."""
    found: dict[str, Any] = {}
    found["ram"] = [tuple(map(int, each)) for each in _RAM.findall(line)]
    found["swap"] = [tuple(map(int, each)) for each in _SWAP.findall(line)]
    cores = _CORE.findall("".join(_CPU.findall(line)))
    found["cpus"] = [(int(load), int(mhz)) if load else None for load, mhz in cores]
    found["emc"] = [(int(load), int(mhz or 0)) for load, mhz in _EMC.findall(line)]
    found["gpu"] = [(int(load), int(mhz or 0)) for load, mhz in _GPU.findall(line)]
    found["ape"] = [int(mhz) for mhz in _APE.findall(line)]
    found["celsius"] = {name: float(each) for name, each in _TEMPERATURE.findall(line)}
    found["mw"] = {name: (int(now), int(mean)) for name, now, mean in _RAIL.findall(line)}
    return found
