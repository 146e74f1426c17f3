"""The modes that a decision is about, from a board or a table, and the data of measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from mansard.analytics.data.model_frames import (
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
    PREDICTION_KEY,
)
from mansard.analytics.data.published.cells import Cells, check_modes, read_table
from mansard.analytics.data.published.columns import find_columns
from mansard.analytics.data.published.modes import fill_modes
from mansard.analytics.models.scaling.network_terms import usable
from mansard.core.errors import InputError, UsageError
from mansard.core.hardware import (
    SETTINGS,
    KnownMode,
    NamedModes,
    boards_with,
    find_mode,
)
from mansard.core.power_mode import custom_name
from mansard.core.records import PowerMode, Processor, PublishedMode
from mansard.core.text import printable

_SETTINGS = tuple(name for name in MODE_SCHEMA if name not in ("device", "mode"))

ModeFrame: TypeAlias = pl.DataFrame  # of MODE_SCHEMA


def mode_frame(modes: Sequence[PowerMode | PublishedMode], device: str) -> ModeFrame:
    """A row for each of ``modes``, all of ``device``."""
    rows = [
        {"device": device, "mode": mode.name, **{name: getattr(mode, name) for name in _SETTINGS}}
        for mode in modes
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def read_mode_table(path: Path, device: str) -> ModeFrame:
    """The modes that the CSV file ``path`` lists, each once, in its order.

    Columns: ``mode`` and any of ``gpu_hz``, ``memory_hz``, ``cpu_hz`` (or ``_mhz``), ``n_sms``,
    ``n_cpus``, ``power_limit_w``, named as in an imported table; others are ignored. Without
    ``mode``, modes are named by their clocks. Settings that the table does not give for a mode of
    NVIDIA's come from NVIDIA's table, as for imported tables. Raises InputError for another table,
    StorageError if it cannot be read.
    """
    table = read_table(path)
    columns, _ = find_columns(table.columns, {}, table.where)
    if all(column.field not in _FIELDS for column in columns):
        raise InputError(
            "no column is a clock, a count or a power limit",
            where=table.where,
            fix="give mode and some of gpu_hz, memory_hz, cpu_hz, n_sms, n_cpus, power_limit_w",
        )
    modes = [(row.line, Cells(table, columns, row).mode()) for row in table.rows]
    check_modes(modes, table.where)
    named = {mode.name: mode for _, mode in modes}
    # As of the tables that are imported: else a mode of both would name other settings here.
    processor: Processor = "cpu" if "CPU" in device.split() else "gpu"
    filled = fill_modes(device, processor, named).modes
    return mode_frame(list(filled.values()), device)


_FIELDS = frozenset({"gpu", "emc", "cpu", "sms", "cpus", "power_limit"})


@dataclass(frozen=True, eq=False)
class JoinedModes:
    """MODE_SCHEMA rows, and a line for each name that was taken for another one."""

    modes: ModeFrame
    notes: tuple[str, ...]


def join_modes(
    candidates: ModeFrame, known: ModeFrame, *, boards: Sequence[NamedModes], are_explicit: bool
) -> JoinedModes:
    """``candidates`` with those that are one of the ``known`` modes under its name and settings.

    Both are of one device, which may be one of ``boards``. ``are_explicit``: the settings of a
    candidate were given by the user, so that a known mode with others is another mode, whatever it
    is called; else they come from a table, and the name decides.
    """
    known_rows = {row["mode"]: row for row in known.iter_rows(named=True)}
    taken = [KnownMode(name, _settings_of(row)) for name, row in known_rows.items()]
    boards = boards_with(boards, taken)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for row in candidates.iter_rows(named=True):
        name, settings = row["mode"], _settings_of(row)
        match = find_mode(KnownMode(name, settings if are_explicit else {}), taken, boards)
        if match is None and not are_explicit:
            match = find_mode(KnownMode(name, settings), taken, boards)
        if match is not None:
            rows.append(row | _settings_of(known_rows[match.name]) | {"mode": match.name})
            notes += match.notes(name)
        elif name in known_rows:
            other = _name_by_settings(row)
            notes.append(f"{name} as asked has other clocks than as measured: called {other}")
            rows.append(row | {"mode": other})
        else:
            rows.append(row)
    frame = pl.DataFrame(rows, schema=MODE_SCHEMA).unique("mode", keep="first", maintain_order=True)
    return JoinedModes(frame, tuple(notes))


def _settings_of(row: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: row[name] for name in _SETTINGS}


def _name_by_settings(row: Mapping[str, Any]) -> str:
    clocks = {"gpu_hz": row["gpu_hz"], "emc_hz": row["memory_hz"], "cpu_hz": row["cpu_hz"]}
    return f"{row['mode']} ({custom_name(row['n_cpus'], **clocks) or 'as asked'})"


@dataclass(frozen=True)
class SettingGap:
    """A setting that some modes do not name: it is ignored, or these modes are left out.

    ``unnamed_by``: it is ignored because no measured mode names it, or no candidate.
    """

    setting: str
    is_ignored: bool
    unnamed_by: Literal["measured", "candidates"] | None
    without: tuple[str, ...]  # the modes that do not name it
    n_modes: int


@dataclass(frozen=True, eq=False)
class ComparableModes:
    """``modes``: MODE_SCHEMA rows of one device in a fixed order, no two alike.

    ``measured``: the names of those that are measured. ``n_alike``: how many were dropped because
    they have the settings of another one.
    """

    modes: pl.DataFrame
    measured: frozenset[str]
    gaps: tuple[SettingGap, ...]
    n_alike: int


def comparable_modes(candidates: pl.DataFrame, measured: pl.DataFrame | None) -> ComparableModes:
    """Both as one table; a measured mode has the settings that were read back, not its caps.

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
    comparable, gaps = _settle_gaps(all_modes, names)
    if comparable.is_empty():
        raise UsageError("no two modes name the same clocks", fix="give each mode all its clocks")
    if names and not any(comparable.get_column(name).count() for name in SETTINGS):
        raise UsageError(
            "the measured modes and those to choose from have no setting in common",
            fix=f"give both some of {', '.join(SETTINGS)}",
        )
    is_measured = pl.col("mode").is_in(names)
    ordered = comparable.sort(~is_measured, *SETTINGS, "mode", nulls_last=True)
    distinct = ordered.unique(SETTINGS, keep="first", maintain_order=True)
    return ComparableModes(
        distinct.sort(*SETTINGS, "mode", nulls_last=True),
        frozenset(names),
        gaps,
        n_alike=comparable.height - distinct.height,
    )


def _check(candidates: pl.DataFrame) -> None:
    if candidates.is_empty():
        raise UsageError("there is no mode to choose from", fix="name modes, or a grid of clocks")
    devices = candidates.get_column("device").unique().to_list()
    if len(devices) > 1:
        named = ", ".join(sorted(map(str, devices)))
        raise UsageError(f"modes of {len(devices)} devices: {named}", fix="plan one at a time")


def _settle_gaps(
    modes: pl.DataFrame, measured: list[str]
) -> tuple[pl.DataFrame, tuple[SettingGap, ...]]:
    """The modes with the settings that most of them name; the other settings are null."""
    gaps = []
    for name in SETTINGS:
        known = modes.filter(pl.col(name).is_not_null())
        n_known, n_lacking = known.height, modes.height - known.height
        if not n_known or not n_lacking:
            continue
        unnamed_by = _unnamed_by(name, modes, measured)
        is_ignored = unnamed_by is not None or n_known < n_lacking
        without = modes.filter(pl.col(name).is_null()).get_column("mode").to_list()
        gaps.append(SettingGap(name, is_ignored, unnamed_by, tuple(without), modes.height))
        if is_ignored:
            modes = modes.with_columns(pl.lit(None, MODE_SCHEMA[name]).alias(name))
        else:
            modes = known
    return modes, tuple(gaps)


def _unnamed_by(
    setting: str, modes: pl.DataFrame, measured: list[str]
) -> Literal["measured", "candidates"] | None:
    """Whether no measured mode names the setting, or no candidate."""
    if not measured:
        return None
    is_measured, is_named = pl.col("mode").is_in(measured), pl.col(setting).is_not_null()
    # A CPU's modes say nothing of the GPU beside it: there its clock is no setting.
    if modes.filter(is_measured, is_named).is_empty():
        return "measured"
    others = modes.filter(~is_measured)
    if others.height and others.filter(is_named).is_empty():
        return "candidates"
    return None


@dataclass(frozen=True, eq=False)
class PlanningData:
    """One device's modes (MODE_SCHEMA) and observations (OBSERVATION_SCHEMA).

    ``modelled``: the networks whose observations are predictions, as they were not run there.
    """

    device: str
    modes: pl.DataFrame
    observations: pl.DataFrame
    modelled: tuple[str, ...]


def select_data(
    modes: pl.DataFrame,
    observations: pl.DataFrame,
    predictions: pl.DataFrame,
    *,
    device: str | None = None,
    network: str | None = None,
) -> PlanningData:
    """The modes and observations of one device, and of ``network`` or of all networks.

    ``device``: its name or a part of it; None if there is only one device, or only one that ran
    the ``network``. ``modes``: those that were measured or published. ``predictions``:
    PREDICTION_SCHEMA rows from the roofs of these modes; they are the observations of a network
    that was not run on the device. Raises UsageError, which lists the devices or networks.
    """
    chosen = _choose_device(modes, observations, device, network)
    ours = pl.col("device") == chosen
    runs = observations.filter(ours)
    allowed = predictions.filter(
        ours & pl.col("latency_s").is_not_null() & ~pl.col("is_extrapolated").fill_null(value=False)
    ).join(modes.select("device", "mode"), on=["device", "mode"], how="semi")
    allowed = allowed.join(runs, on=list(PREDICTION_KEY), how="anti", nulls_equal=True)
    if network is not None:
        runs, allowed = _choose_network(runs, allowed, network)
    return PlanningData(
        chosen,
        modes.filter(ours).select(*MODE_SCHEMA),
        pl.concat([runs.select(*OBSERVATION_SCHEMA), _as_observations(allowed)]),
        tuple(allowed.get_column("network").unique(maintain_order=True).to_list()),
    )


def _choose_device(
    modes: pl.DataFrame, observations: pl.DataFrame, device: str | None, network: str | None
) -> str:
    devices = pl.concat([modes.get_column("device"), observations.get_column("device")])
    names: list[str] = devices.unique(maintain_order=True).to_list()
    if not names:
        raise UsageError("no mode was measured", fix="leave the folder out")
    part = (device or "").casefold()
    matches = [name for name in names if name == device] or [
        name for name in names if part in name.casefold()
    ]
    if len(matches) > 1 and network is not None:
        ran = observations.filter(pl.col("network").str.to_lowercase() == network.lower())
        on = ran.get_column("device").unique().to_list()
        matches = [name for name in matches if name in on] or matches
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise UsageError(f"no measured device is called {device!r}", fix=f"use {_some(names)}")
    raise UsageError(
        f"{len(matches)} devices were measured", fix=f"choose one with --device: {_some(matches)}"
    )


def _choose_network(
    runs: pl.DataFrame, allowed: pl.DataFrame, network: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    is_it = pl.col("network").str.to_lowercase() == network.lower()
    selected = runs.filter(is_it), allowed.filter(is_it)
    if not any(frame.height for frame in selected):
        columns = [frame.get_column("network") for frame in (runs, allowed)]
        names = pl.concat(columns).unique(maintain_order=True).to_list()
        fix = f"use {_some(names)}" if names else "score or import it first"
        raise UsageError(f"nothing is known of a network {network!r}", fix=fix)
    return selected


def _as_observations(predictions: pl.DataFrame) -> pl.DataFrame:
    reason = pl.lit("not metered: modelled from the roofs of the mode")
    return predictions.with_columns(
        pl.lit("modelled").alias("source"),
        *(pl.lit(None, pl.String).alias(name) for name in ("engine", "citation")),
        *(
            pl.lit(None, pl.Float64).alias(name)
            for name in ("latency_deviation", "power_deviation", "energy_j", "cpu_s")
        ),
        pl.when(pl.col("power_w").is_null()).then(reason).alias("reason"),
    ).select(*OBSERVATION_SCHEMA)


def _some(names: list[str]) -> str:
    shown = [printable(name) for name in names[:8]]
    return ", ".join(shown) + (", …" if len(names) > 8 else "")
