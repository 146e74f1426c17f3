"""The dump of ``nvpmodel -p --verbose``: the same configuration in other words.

Every line begins with ``NVPM VERB:``; headers have no angle brackets, ``POWER_MODEL:`` and
``PM_CONFIG:`` have a colon, and the default is written ``MODE_30W(2)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mansard.device.nvpmodel.config import Config
from mansard.device.nvpmodel.grammar import MAX_LINE, text_lines
from mansard.device.nvpmodel.sections import Line, assemble

_PREFIX = re.compile(r"NVPM VERB:\s*")
_START = re.compile(r"^\s*NVPM VERB:", re.MULTILINE)
_HEADER = re.compile(r"(PARAM|POWER_MODEL|PM_CONFIG|FAN_[A-Z]+)\b:?(.*)")
# What the tool says about its own work, before and after the dump.
_CHATTER = re.compile(r"Config file:|parsing done for|succeed to parse|\W*$|#")


def parse_verbose(text: str, where: str) -> Config:
    """The configuration in a dump; raises InputError as ``parse_config`` does.

    A dump shows the paths of the kernel that runs alone, not the ``_KNEXT`` ones beside them.
    """
    return assemble(_lines(text, where), where)


def is_verbose(text: str) -> bool:
    """Whether ``text`` is such a dump rather than a configuration file."""
    return _START.search(text) is not None


def _lines(text: str, where: str) -> Iterator[Line]:
    for number, raw in text_lines(text, where):
        prefix = _PREFIX.match(raw)
        content = raw[prefix.end() :] if prefix else raw
        header = _HEADER.match(content)
        if _CHATTER.match(content):
            continue
        if header is not None:
            yield Line(number, raw, header[1], header[2] if len(raw) <= MAX_LINE else "")
        elif prefix is None or len(raw) > MAX_LINE:
            yield Line(number, raw, None, "")  # such as a complaint amid the dump
        else:
            yield Line(number, raw, None, content)
