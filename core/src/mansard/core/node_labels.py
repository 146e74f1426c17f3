"""Labels of nodes: the names by which what an engine ran is traced to a network's layers.

Names of nodes may be empty or doubled, an engine joins several where it fuses nodes, and writes its
own in front of those of a branch that it moves out of an If. A label survives that.
"""

from __future__ import annotations

import re

_LABEL = re.compile(r"@(\d{1,9})@")


def label(index: int) -> str:
    """The name of the node that ``LayerScore.index`` calls ``index``."""
    return f"@{index}@"


def labels_of(name: str) -> tuple[int, ...]:
    """The indexes in a name that holds labels, whatever was written around them; each once."""
    return tuple(dict.fromkeys(int(found) for found in _LABEL.findall(name)))


def label_of(name: str) -> int | None:
    """The last index in a name; None where it holds no label."""
    found = labels_of(name)
    return found[-1] if found else None
