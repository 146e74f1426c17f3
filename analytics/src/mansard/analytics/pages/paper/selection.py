"""The choice of what a figure shows: a device, a mode, networks and a batch size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.parameters import (
    batch_options,
    device_options,
    first_choice,
    roof_devices,
    starts,
)
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.text import first_of, listed, printable

MOST_NETWORKS = 10  # in one figure: as many as there are markers
_MOST_NAMED = 6  # in an error
_NO_RUNS = "no kernel was measured and no ceilings were imported"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The names that a user gives; empty or None: a default, which the caption states."""

    models: Sequence[str] = ()
    device: str | None = None
    mode: str | None = None
    precisions: Sequence[str] = ()
    batch: int | None = None


def choose_device(results: Results, wish: Wish) -> str:
    """The device whose name contains the wished text, by default the first one of a report."""
    devices = device_options(results)
    if not devices:
        raise UsageError(_NO_RUNS, fix="measure first: mansard bench")
    if wish.device is None:
        return first_choice(results).device or devices[0]
    wanted = wish.device.casefold()
    exact = [name for name in devices if name.casefold() == wanted]
    named = exact or [name for name in devices if wanted in name.casefold()]
    if len(named) == 1:
        return named[0]
    what = "several devices are" if named else "no device is"
    raise UsageError(
        f"{what} called {printable(wish.device, 60)!r}",
        fix=f"name one of {_some(named or devices)}",
    )


def choose_roof(results: Results, wish: Wish) -> Roofline:
    """The roofs of the wished device and mode, by default the first mode of a report."""
    if not results.roofs:
        raise UsageError(_NO_RUNS, fix="measure first: mansard bench")
    device = choose_device(results, wish)
    devices = roof_devices(results)
    roofs = [roof for roof in results.roofs if devices[roof.label] == device]
    if not roofs:
        raise UsageError(
            f"no kernel was measured on {display_name(device)}, so it has no roofs",
            fix="measure them: mansard bench",
        )
    if wish.mode is None:
        start = starts(results)[device].mode
        return next((roof for roof in roofs if roof.label == start), roofs[-1])
    wanted = wish.mode.casefold()
    named = [roof for roof in roofs if wanted in {roof.mode.casefold(), roof.label.casefold()}]
    if not named:
        modes = [roof.mode for roof in roofs]
        raise UsageError(
            f"mode {printable(wish.mode, 60)!r} of {display_name(device)} has no roofs",
            fix=f"name one of {_some(modes)}",
        )
    return named[-1]  # of several runs of one mode the newest


def choose_networks(there: Iterable[str], wish: Wish) -> list[str]:
    """The networks that ``wish`` names, by default all; raises UsageError for one not ``there``."""
    known = in_order(list(there))
    if not wish.models:
        return known
    named = {_plain_name(name): name for name in known}
    chosen = []
    for model in dict.fromkeys(wish.models):
        name = model if model in known else named.get(_plain_name(PurePath(model).stem))
        if name is None:
            raise UsageError(
                f"no network {printable(model, 60)!r} was measured or predicted there",
                fix=f"name one of {_some(known)}" if known else "score it: mansard bench MODEL",
            )
        chosen.append(name)
    return chosen


def choose_network(there: Iterable[str], first: str, wish: Wish) -> str:
    """One network: the wished one, else ``first``."""
    networks = choose_networks(there, wish)
    if wish.models and len(networks) > 1:
        raise UsageError("this figure shows one network", fix=f"name one: {networks[0]}")
    if not networks:
        raise UsageError("no network was predicted", fix="score one: mansard bench MODEL")
    return first if not wish.models and first in networks else networks[0]


def choose_batch(results: Results, wish: Wish) -> str:
    """The batch size, as a text: the wished one, else the smallest."""
    options = batch_options(results)
    if wish.batch is None:
        return options[0] if options else "1"
    if options and str(wish.batch) not in options:
        raise UsageError(
            f"no network was scored with batch {wish.batch}", fix=f"use one of {_some(options)}"
        )
    return str(wish.batch)


def of_precisions(rows: pl.DataFrame, wish: Wish) -> pl.DataFrame:
    """The rows of the wished precisions; raises UsageError where all rows are of others."""
    if not wish.precisions or rows.is_empty():
        return rows
    chosen = rows.filter(pl.col("precision").is_in(wish.precisions))
    if chosen.is_empty():
        known = in_order(rows["precision"].to_list())
        raise UsageError(
            f"nothing was measured or predicted in {listed(wish.precisions, 'or')} there",
            fix=f"use one of {_some(known)}",
        )
    return chosen


def _plain_name(name: str) -> str:
    return display_name(name).casefold()


def _some(names: Sequence[str]) -> str:
    return first_of([display_name(name) for name in names], _MOST_NAMED)
