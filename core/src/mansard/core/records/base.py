"""The base of all records: frozen, strict, and no None without its reason."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from mansard.core.brief import Brief

# "simulated": measured, but on a made-up board; it never passes for a real one.
Source = Literal["measured", "simulated", "modelled", "published"]


class Schema(msgspec.Struct, frozen=True):
    """What the records of a file are called, and which version of them it holds.

    The version is raised whenever a field is added, removed or changes its meaning. Files of
    another version are refused, but for those from ``oldest`` on, whose records lack fields that
    have defaults.
    """

    name: str
    version: int
    oldest: int | None = None


class Record(Brief, msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all records: fields that are None and reasons must match one to one."""

    schema: ClassVar[Schema]  # of the records that files may hold
    unknown: dict[str, str] = {}

    def __post_init__(self) -> None:
        values = msgspec.structs.astuple(self)
        if self.unknown or None in values:
            self._check_reasons(values.count(None))
        for name in _float_fields(type(self)):
            # JSON has no way to write these, so the row could never be read again.
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{type(self).__name__}: {name} is {value}")

    def _check_reasons(self, n_missing: int) -> None:
        fields, unknown = self.__struct_fields__, self.unknown
        if n_missing == len(unknown):
            for name in unknown:
                if name not in fields or getattr(self, name) is not None:
                    break
            else:
                return
        missing = {name for name in fields if getattr(self, name) is None}
        unexplained, needless = sorted(missing - unknown.keys()), sorted(unknown.keys() - missing)
        raise ValueError(
            f"{type(self).__name__}: every None needs its reason in 'unknown' "
            f"(without reason: {unexplained}, reason without None: {needless})"
        )


RecordT = TypeVar("RecordT", bound=Record)


def with_known(record: RecordT, /, **known: Any) -> RecordT:
    """``record`` with these values, none of them None, and without the reasons for their lack."""
    unknown = {name: why for name, why in record.unknown.items() if name not in known}
    return msgspec.structs.replace(record, **known, unknown=unknown)


# Rows of all kinds name their faults alike: ``failure``, ``disturbances``, ``stability`` and
# ``stability_interval``. A field that a kind of rows lacks is a fault that it cannot have.


# Begins a disturbance that a further attempt has too: a property of the network and the host.
HOST_BOUND = "bound by the host"


def doubts(row: Record, *, with_stability: bool = True) -> tuple[str, ...]:
    """Why measuring ``row`` again may give a better one, in words; empty where it is good.

    What could not be run at all has none: its kind says which failures may be temporary.
    ``with_stability``: whether an interval wider than the protocol's goal is a doubt.
    """
    if getattr(row, "failure", None):
        return ()
    disturbances = tuple(
        f"disturbed: {why}"
        for why in getattr(row, "disturbances", ())
        if not why.startswith(HOST_BOUND)
    )
    if not with_stability or getattr(row, "stability", "stable") == "stable":
        return disturbances
    interval: float | None = getattr(row, "stability_interval", None)
    if interval is None:
        return (*disturbances, f"unstable: {row.unknown.get('stability_interval', 'unknown')}")
    return (*disturbances, f"unstable: half-width of its interval {interval:.1%}")


def quality(row: Record) -> tuple[bool, bool, bool, float]:
    """A key that is greater for the better of two rows of one trial; of equal ones take the newest.

    A row that ran is better than one that failed, then an undisturbed one, then a stable one, then
    the one with the narrower interval.
    """
    interval: float | None = getattr(row, "stability_interval", None)
    return (
        not getattr(row, "failure", None),
        not getattr(row, "disturbances", ()),
        getattr(row, "stability", "stable") == "stable",
        -math.inf if interval is None else -interval,
    )


@cache
def _float_fields(record: type[Record]) -> tuple[str, ...]:
    """The fields that may hold a float; most rows of a large file have none."""
    kinds: dict[str, str] = {}
    for parent in reversed(record.__mro__):
        kinds.update(getattr(parent, "__annotations__", {}))
    return tuple(name for name in record.__struct_fields__ if "float" in str(kinds[name]))
