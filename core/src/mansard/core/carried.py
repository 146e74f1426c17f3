"""Errors that cross a pipe: said as data on one side, raised as what they are on the other."""

from __future__ import annotations

import msgspec

from mansard.core import errors
from mansard.core.errors import MansardError

_KINDS = {
    one.__name__: one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, MansardError)
}


class CarriedError(msgspec.Struct, frozen=True):
    """An error as data."""

    kind: str  # name of its class
    what: str
    where: str | None
    fix: str | None


def carry(error: MansardError) -> CarriedError:
    """``error`` as data."""
    return CarriedError(type(error).__name__, error.what, error.where, error.fix)


def carried(error: CarriedError, place: str | None = None) -> MansardError:
    """The error again, as the kind it was; ``place`` is put before where it happened."""
    kind = _KINDS.get(error.kind, MansardError)
    where = ": ".join(part for part in (place, error.where) if part)
    return kind(error.what, where=where or None, fix=error.fix)
