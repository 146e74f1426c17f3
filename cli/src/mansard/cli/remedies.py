"""Commands in remedies and notes get the board, the hosts and the runs that were given.

``doctor --board X`` that advises ``mansard board restore`` means ``mansard board restore --board
X``: without the option, the command would be about another machine.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from types import MappingProxyType

_HOSTS = frozenset(("bench", "measure", "board restore", "board watch"))
# By option: the commands that accept it.
_COMMANDS = MappingProxyType(
    {
        "--board": _HOSTS | {"doctor", "board modes"},
        "--host": _HOSTS,
        "--hosts-file": _HOSTS,
        "--runs": frozenset(("bench", "measure", "report", "recommend")),
    }
)
_PLACES = frozenset(("--board", "--host"))  # each says where a command measures
_ALL = "|".join(sorted(frozenset().union(*_COMMANDS.values()), key=len, reverse=True))
# A command, and the words after it: up to its closing quote or the end of the sentence. An argument
# in quotes is one of the words.
_COMMAND = re.compile(rf"\bmansard (?P<command>{_ALL})\b(?P<words>(?:(?<=\s)'[^'\n]*'|[^'\n;])*)")
_given: dict[str, list[str]] = {}


def take_given(words: Sequence[str]) -> None:
    """Keep these options of a command line without its program, until the next call."""
    _given.clear()
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name not in _COMMANDS:
            continue
        if equals or at + 1 < len(words):
            _given.setdefault(name, []).append(value if equals else words[at + 1])


def with_given(text: str) -> str:
    """``text`` whose commands have the given options that they accept, each once."""
    return _COMMAND.sub(_complete, text) if _given else text


def _complete(found: re.Match[str]) -> str:
    command, words = found["command"], found["words"]
    is_placed = re.search(r"--(board|host)\b", words)  # it is for that board, not for the given one
    options = [
        f" {name} {shlex.quote(value)}"
        for name, values in _given.items()
        if command in _COMMANDS[name]
        and not re.search(rf"{name}\b", words)
        and not (is_placed and name in _PLACES)
        for value in (values if name == "--host" else values[-1:])
    ]
    return f"mansard {command}{''.join(options)}{words}"
