"""The choice of what a figure shows: a device, a mode, networks and a batch size."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

import polars as pl

from mansard.analytics.data.names import display_name, in_order
from mansard.analytics.models.predict.row_times import NetworkTimes
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.parameters import (
    batch_options,
    device_options,
    first_choice,
    roof_devices,
    starts,
)
from mansard.analytics.pages.figures.tables import batch_text
from mansard.analytics.pages.paper.content import short_device
from mansard.analytics.pages.results import Results
from mansard.core.errors import UsageError
from mansard.core.text import first_of, listed, printable

MOST_NETWORKS = 10  # in one figure: as many as there are markers
_MOST_NAMED = 6  # in an error
_NO_RUNS = "no kernel was measured and no ceilings were imported"
Need = Literal["score", "energy"]  # of a network's place in a figure


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The names that a user gives; empty or None: a default, which the caption states."""

    models: Sequence[str] = ()
    device: str | None = None
    mode: str | None = None
    precisions: Sequence[str] = ()
    batch: int | None = None

    @property
    def options(self) -> str:
        """The option that names the precisions in a command."""
        return f" --precision {','.join(self.precisions)}" if self.precisions else ""


def choose_device(results: Results, wish: Wish, fitting: Collection[str] = ()) -> str:
    """The device whose name is or contains the wished text, by default the first one of a report.

    ``fitting``: devices that have what the figure draws, which come before others.
    """
    devices = device_options(results)
    if not devices:
        raise UsageError(_NO_RUNS, fix="measure first: mansard bench")
    if wish.device is None:
        first = first_choice(results).device or devices[0]
        ran = in_order([times.device for times in _runs_of(results, wish)])
        usual = first if first in ran or not ran else ran[0]
        usable = [name for name in (usual, *ran, *devices) if name in fitting or not fitting]
        return (usable or [usual])[0]
    wanted = wish.device.casefold()
    names = {name: {name.casefold(), short_device(name).casefold()} for name in devices}
    exact = [name for name in devices if wanted in names[name]]
    named = exact or [name for name in devices if any(wanted in one for one in names[name])]
    for few in (named, [name for name in named if name in fitting]):
        if len(few) == 1:
            return few[0]
    what = "several devices are" if named else "no device is"
    raise UsageError(
        f"{what} called {printable(wish.device, 60)!r}",
        fix=f"name one of {_some(named or devices)}",
    )


def choose_roof(results: Results, wish: Wish, need: Need = "score") -> Roofline:
    """The roofs of the wished device and mode, by default the first mode of a report.

    ``need``: energy, of a figure that draws it.
    """
    if not results.roofs:
        raise _no_roofs(_runs_of(results, wish) or results.measured)
    devices = roof_devices(results)
    metered = {devices[roof.label] for roof in results.roofs if roof.run_id in results.energies}
    device = choose_device(results, wish, metered if need == "energy" else set(devices.values()))
    roofs = [roof for roof in results.roofs if devices[roof.label] == device]
    if not roofs:
        raise UsageError(
            f"no kernel was measured on {display_name(device)}, so it has no roofs",
            fix="measure them: mansard bench",
        )
    if wish.mode is None:
        in_mode = {times.mode for times in _runs_of(results, wish) if times.device == device}
        roofs = [roof for roof in roofs if roof.mode in in_mode] or roofs
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


def choose_networks(
    there: Iterable[str], wish: Wish, results: Results, need: Need = "score"
) -> list[str]:
    """The networks that ``wish`` names, by default all; raises UsageError for one not ``there``.

    ``need``: that a network must have to be there.
    """
    known = in_order(list(there))
    if not wish.models:
        return known
    chosen = []
    for model in dict.fromkeys(wish.models):
        name = _find(model, known)
        if name is None:
            raise _absent(model, known, wish, results, need)
        chosen.append(name)
    return chosen


def _absent(
    model: str, known: Sequence[str], wish: Wish, results: Results, need: Need
) -> UsageError:
    """Why the network ``model`` has no place in a figure, and the command that gives it one."""
    every = [*results.names.values(), *results.predictions["network"].to_list()]
    name = _find(model, every)
    if name is None:
        others = f"name one of {_some(known)}, or " if known else ""
        score = f"mansard report {shlex.quote(printable(model, 60))}"
        what = f"no network {printable(model, 60)!r} was measured or scored there"
        return UsageError(what, fix=f"{others}score it: {score}")
    shown = display_name(name)
    is_file = PurePath(model).suffix.lower() == ".onnx"
    named = shlex.quote(printable(model, 60) if is_file else shown)
    scored = results.networks.filter(pl.col("network") == name)
    if need == "energy" and len(scored) and scored["energy_j"].is_null().all():
        what = f"the energy of {shown} is unknown"
        return UsageError(what, fix=f"read a power meter: mansard measure {named}")
    if wish.precisions:
        scored = scored.filter(pl.col("precision").is_in(wish.precisions))
    if wish.batch is not None:
        scored = scored.filter(pl.col("batch") == wish.batch)
    why = _reasons(scored)
    if why and scored["time_s"].is_null().all():
        what = f"the latency of {shown} is unknown: {why[0]}"
        return UsageError(what, fix=f"measure it: mansard measure {named}{wish.options}")
    ran = _runs_of(results, replace(wish, models=(model,)))
    if ran and (wish.batch is not None or wish.mode is not None):
        settings = in_order(
            [
                f"--mode {shlex.quote(display_name(times.mode))} --batch {batch_text(times.batch)}"
                for times in ran
            ]
        )
        what = f"{shown} did not run with these settings"
        return UsageError(what, fix=f"use {' or '.join(settings)}")
    what = f"{shown} ran, but has no score there" if ran else f"{shown} has no score there"
    return UsageError(what, fix=f"score it: mansard report {named}{wish.options}")


def _no_roofs(ran: Sequence[NetworkTimes]) -> UsageError:
    what = f"{_some_networks(ran)} ran, but {_NO_RUNS}" if ran else _NO_RUNS
    return UsageError(what, fix="measure the roofs: mansard bench")


def _reasons(scored: pl.DataFrame) -> list[str]:
    """Why scored networks have no time."""
    return [text for text in scored["reason"].unique(maintain_order=True).to_list() if text]


def no_network(results: Results, wish: Wish, device: str) -> UsageError:
    """Why no network of ``device`` has a latency in any mode, and the command that gives one."""
    ran = [times for times in _runs_of(results, wish) if times.device == device]
    if ran and all(times.disturbed_s for times in ran):
        again = shlex.quote(ran[0].network)
        return UsageError(
            f"other work disturbed {_some_networks(ran)}",
            fix=f"measure again: mansard measure {again} --mode all",
        )
    if ran and not results.roofs:
        return _no_roofs(ran)
    return UsageError(
        f"no network with these settings was measured or predicted on {display_name(device)}",
        fix="score one and predict it in every mode: mansard bench MODEL",
    )


def _runs_of(results: Results, wish: Wish) -> list[NetworkTimes]:
    """The timed runs of the wished networks, of all by default."""
    wanted = _spellings(wish.models)
    timed = [times for times in results.measured if times.shown_s[0] is not None]
    return [times for times in timed if not wanted or _plain_name(times.network) in wanted]


def choose_network(there: Iterable[str], first: str, wish: Wish, results: Results) -> str:
    """One network: the wished one, else ``first``."""
    networks = choose_networks(there, wish, results)
    if wish.models and len(networks) > 1:
        raise UsageError("this figure shows one network", fix=f"name one: {networks[0]}")
    if not networks:
        raise UsageError("no network was predicted", fix="score one: mansard bench MODEL")
    return first if not wish.models and first in networks else networks[0]


def choose_batch(results: Results, wish: Wish, roof: Roofline) -> str:
    """The batch size, as a text: the wished one, else the smallest that ran in the mode of
    ``roof``, else the smallest of the wished networks, else of all."""
    options = batch_options(results)
    if wish.batch is None:
        ran = {
            batch_text(times.batch)
            for times in _runs_of(results, wish)
            if times.mode == roof.mode and times.device == roof_devices(results)[roof.label]
        }
        wanted = _spellings(wish.models)
        scored = {
            batch_text(batch)
            for network, batch in results.networks.select("network", "batch").unique().iter_rows()
            if _plain_name(network) in wanted
        }
        first = next((one for some in (ran, scored) for one in options if one in some), None)
        return first or (options[0] if options else "1")
    if options and str(wish.batch) not in options:
        raise UsageError(
            f"no network was scored with batch {wish.batch}", fix=f"use one of {_some(options)}"
        )
    return str(wish.batch)


def of_precisions(rows: pl.DataFrame, wish: Wish, results: Results) -> pl.DataFrame:
    """The rows of the wished precisions; raises UsageError where all rows are of others."""
    if not wish.precisions or rows.is_empty():
        return rows
    chosen = rows.filter(pl.col("precision").is_in(wish.precisions))
    if chosen.is_empty():
        known = in_order(rows["precision"].to_list())
        fix = f"use one of {_some(known)}"
        why = _reasons(
            results.networks.filter(
                pl.col("precision").is_in(wish.precisions),
                pl.col("network").is_in(rows["network"].to_list()),
            )
        )
        if why:
            raise UsageError(f"no latency in {listed(wish.precisions, 'or')}: {why[0]}", fix=fix)
        if wish.models:
            networks = " ".join(shlex.quote(printable(model, 60)) for model in wish.models)
            fix += f", or score it: mansard report {networks}{wish.options}"
        raise UsageError(
            f"nothing was measured or predicted in {listed(wish.precisions, 'or')} there", fix=fix
        )
    return chosen


def _find(model: str, names: Sequence[str]) -> str | None:
    """The one of ``names`` that ``model``, a name or a file, is."""
    by_spelling = {_plain_name(name): name for name in names}
    found = (by_spelling[one] for one in _spellings([model]) if one in by_spelling)
    return model if model in names else next(found, None)


def _spellings(models: Iterable[str]) -> list[str]:
    """How networks may be named that are given by a name or by a file."""
    return [_plain_name(text) for model in models for text in (model, PurePath(model).stem)]


def _plain_name(name: str) -> str:
    return display_name(name).casefold()


def _some_networks(ran: Iterable[NetworkTimes]) -> str:
    return _some(in_order([times.network for times in ran]))


def _some(names: Sequence[str]) -> str:
    return first_of([display_name(name) for name in names], _MOST_NAMED)
