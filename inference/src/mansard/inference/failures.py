"""Failures of a network that may be gone another time: the same command tries it again."""

from __future__ import annotations

from mansard.core.processes.programs import names_outer_signal

# What the failure of its measurement begins with; the second: the next command tries it again.
NOT_BUILT = "it could not be built"
NOT_BUILT_NOW = f"{NOT_BUILT} now"
_NO_MEMORY = "too little memory"


def is_for_now(failure: str | None) -> bool:
    """Whether the reason may be gone: memory that was short, a process that was killed."""
    if failure is None:
        return False
    if failure.startswith(NOT_BUILT):
        return failure.startswith(NOT_BUILT_NOW)
    return _NO_MEMORY in failure or names_outer_signal(failure)
