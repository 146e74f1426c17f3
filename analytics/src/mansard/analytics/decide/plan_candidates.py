"""The modes that a plan is about: those to choose from, and those that are measured."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.scaling.network_terms import SETTINGS, usable
from mansard.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class PlanModes:
    """``modes``: MODE_SCHEMA rows of one device in a fixed order, no two alike.

    ``measured``: the names of those that are measured. ``notes``: what was left out, and why.
    """

    modes: pl.DataFrame
    measured: frozenset[str]
    notes: tuple[str, ...]


def plan_modes(candidates: pl.DataFrame, measured: pl.DataFrame | None) -> PlanModes:
    """Both together; a mode that was measured is known by what was read back, not by its cap.

    A candidate with the settings of a measured mode is that mode, whatever it is called.
    Raises UsageError where there is nothing to choose from, or more than one device.
    """
    _check(candidates)
    parts = [candidates.select(*MODE_SCHEMA)]
    if measured is not None and measured.height:
        device = pl.lit(parts[0].get_column("device")[0], pl.String).alias("device")
        parts = [measured.select(*MODE_SCHEMA).with_columns(device), *parts]
    names = [] if len(parts) == 1 else parts[0].get_column("mode").to_list()
    all_modes = pl.concat(parts).unique("mode", keep="first", maintain_order=True)
    all_modes = all_modes.with_columns(usable(name) for name in SETTINGS)
    kept, notes = _comparable(all_modes, names)
    if kept.is_empty():
        raise UsageError("no two modes name the same clocks", fix="give each mode all its clocks")
    is_measured = pl.col("mode").is_in(names)
    ordered = kept.sort(~is_measured, *SETTINGS, "mode", nulls_last=True)
    distinct = ordered.unique(SETTINGS, keep="first", maintain_order=True)
    n_alike = kept.height - distinct.height
    if n_alike:
        notes.append(f"taken for another mode of the same settings: {_modes(n_alike)}")
    return PlanModes(
        distinct.sort(*SETTINGS, "mode", nulls_last=True), frozenset(names), tuple(notes)
    )


def _check(candidates: pl.DataFrame) -> None:
    if candidates.is_empty():
        raise UsageError("there is no mode to choose from", fix="name modes, or a grid of clocks")
    devices = candidates.get_column("device").unique().to_list()
    if len(devices) > 1:
        named = ", ".join(sorted(map(str, devices)))
        raise UsageError(f"modes of {len(devices)} devices: {named}", fix="plan one at a time")


def _comparable(modes: pl.DataFrame, measured: list[str]) -> tuple[pl.DataFrame, list[str]]:
    """The modes with the settings that most of them name; the others left out or forgotten."""
    notes = []
    for name in SETTINGS:
        known = modes.filter(pl.col(name).is_not_null())
        n_known, n_lacking = known.height, modes.height - known.height
        if not n_known or not n_lacking:
            continue
        why = _why_unused(name, modes, measured)
        if why or n_known < n_lacking:
            why = why or f"{n_lacking} of {modes.height} modes do not name it"
            notes.append(f"{name} is not used: {why}")
            modes = modes.with_columns(pl.lit(None, MODE_SCHEMA[name]).alias(name))
        else:
            notes.append(f"left out, their {name} is unknown: {_modes(n_lacking)}")
            modes = known
    return modes, notes


def _why_unused(name: str, modes: pl.DataFrame, measured: list[str]) -> str:
    """Why a setting says nothing of the modes to choose from; empty where it does."""
    if not measured:
        return ""
    is_measured, is_named = pl.col("mode").is_in(measured), pl.col(name).is_not_null()
    # A CPU's modes say nothing of the GPU beside it: there its clock is no setting.
    if modes.filter(is_measured, is_named).is_empty():
        return "no measured mode names it"
    others = modes.filter(~is_measured)
    if others.height and others.filter(is_named).is_empty():
        return "no mode to choose from names it"
    return ""


def _modes(n: int) -> str:
    return "1 mode" if n == 1 else f"{n} modes"
