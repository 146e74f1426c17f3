"""How busy cores, GPU, memory controller, DLA and the other engines of a log were."""

from __future__ import annotations

from typing import Literal

from mansard.core.records import Record
from mansard.device.tegrastats.columns import FieldSummary

_NO_LOAD = "the lines have its clock but no load"

Kind = Literal["cpu", "gpu", "emc", "dla", "other"]


class Utilisation(Record, frozen=True, kw_only=True):
    """Share of its time that a core or engine works, of the lines in which it is on.

    ``CPU`` is all cores that are on together. An engine that only some lines have (NVENC
    of r32) was off in the others: ``n_lines`` are those that have it.
    """

    name: str
    kind: Kind
    n_lines: int
    mean_percent: float | None
    maximum_percent: float | None


def utilisation_of(fields: tuple[FieldSummary, ...]) -> tuple[Utilisation, ...]:
    """The loads of cores, GPU, memory controller and other engines."""
    loads = {each.field: each for each in fields if each.quantity == "load"}
    n_lines = {each.field: each.n_lines for each in fields if each.unit in {"%", "Hz"}}
    found = []
    cores = [load for name, load in loads.items() if _kind(name) == "cpu"]
    if cores:
        n_loads = sum(core.n_lines for core in cores)
        found.append(
            Utilisation(
                name="CPU",
                kind="cpu",
                n_lines=max(core.n_lines for core in cores),
                mean_percent=sum(core.mean * core.n_lines for core in cores) / n_loads,
                maximum_percent=max(core.maximum for core in cores),
            )
        )
    for name, n_having in n_lines.items():
        load = loads.get(name)
        unknown = {} if load else dict.fromkeys(("mean_percent", "maximum_percent"), _NO_LOAD)
        found.append(
            Utilisation(
                name=name,
                kind=_kind(name),
                n_lines=n_having,
                mean_percent=load.mean if load else None,
                maximum_percent=load.maximum if load else None,
                unknown=unknown,
            )
        )
    return tuple(found)


def _kind(name: str) -> Kind:
    starts: tuple[tuple[str, Kind], ...] = (
        ("CPU", "cpu"),
        ("GR3D", "gpu"),
        ("EMC", "emc"),
        ("NVDLA", "dla"),
        ("DLA", "dla"),
    )
    return next((kind for start, kind in starts if name.startswith(start)), "other")
