"""Commands of groups that can be called without the group: ``mansard watch``."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

# Their names say enough alone. Help and documents use the whole name.
_GROUPS = MappingProxyType(
    {
        **dict.fromkeys(("watch", "modes", "plan", "restore", "telemetry"), "board"),
        **dict.fromkeys(("export", "build", "fit", "batch", "layers", "ncu"), "models"),
        **dict.fromkeys(("import", "merge", "schema", "image"), "data"),
        **dict.fromkeys(("contention", "schedule"), "multi"),
    }
)


def with_groups(arguments: Sequence[str]) -> list[str]:
    """``arguments`` with the group before a command that is called by its short name."""
    words = list(arguments)
    # No global option takes a value: the first word without a dash is the command.
    place = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    if place is not None and words[place] in _GROUPS:
        words.insert(place, _GROUPS[words[place]])
    return words
