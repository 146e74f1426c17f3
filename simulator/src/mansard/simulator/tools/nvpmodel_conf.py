"""The simulated nvpmodel's reading of its own configuration file."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = re.compile(r"<\s*(PARAM|POWER_MODEL|PM_CONFIG)\s+(.*?)\s*>")
_FIELD = re.compile(r"(\w+)=(\S+)")


class Param(NamedTuple):
    """A PARAM section: argument -> path."""

    kind: str
    name: str
    paths: dict[str, str]


class Mode(NamedTuple):
    """A POWER_MODEL section: (param, argument, value) in order."""

    id: int
    name: str
    settings: list[tuple[str, str, str]]


class Conf(NamedTuple):
    """The file; ``errors`` holds a line for each of its lines that means nothing."""

    params: dict[str, Param]
    modes: dict[int, Mode]
    default: int | None
    errors: list[str]


def parse(text: str) -> Conf:
    """What the file says."""
    conf = Conf({}, {}, None, [])
    param: Param | None = None
    mode: Mode | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        header = _HEADER.fullmatch(line)
        words = line.split()
        try:
            if not line:
                continue
            if header:
                fields = dict(_FIELD.findall(header[2]))
                param = mode = None
                if header[1] == "PARAM":
                    param = conf.params[fields["NAME"]] = Param(fields["TYPE"], fields["NAME"], {})
                elif header[1] == "POWER_MODEL":
                    key = int(fields["ID"])
                    mode = conf.modes[key] = Mode(key, fields["NAME"], [])
                else:
                    conf = conf._replace(default=int(fields["DEFAULT"]))
            elif param is not None and len(words) >= 2:
                param.paths[words[0]] = " ".join(words[1:])
            elif mode is not None and len(words) == 3:
                mode.settings.append((words[0], words[1], words[2]))
            else:
                raise ValueError(line)
        except (KeyError, ValueError):
            conf.errors.append(f"NVPM ERROR: Error parsing line {number}")
    return conf
