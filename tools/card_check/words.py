"""Errors in words."""

from __future__ import annotations

from mansard.core.errors import MansardError


def words_of(error: BaseException) -> str:
    """An error in one line."""
    text = str(error) if isinstance(error, MansardError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:400]
