"""The cells of tables that commands print: two blanks or more stand between them."""

from __future__ import annotations

import re


def cells(text: str) -> list[list[str]]:
    """The cells of each line; an empty cell is none."""
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]


def row(text: str, first: str) -> list[str]:
    """The cells of the only line whose first cell is ``first``."""
    (found,) = (each for each in cells(text) if each[0] == first)
    return found
