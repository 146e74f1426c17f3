"""What a reader chooses, once for all charts of a page: parameters, filters and controls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt

from mansard.analytics.data.names import display_name, in_order, network_key
from mansard.analytics.figures.tables import batch_text
from mansard.analytics.results import Results

# "picked" is a mode too, but one that need not have been measured: any point of the grid.
Name = Literal["mode", "network", "precision", "batch", "device", "picked"]
Key = tuple[str, str]  # device and mode, as the frames of the models have them
EVERY = ""  # no network, no precision, no mode chosen
MOST_BUTTONS = 4  # of more options a control is a list that opens
# A filter: rows of the chosen precision; where none is chosen, of the one marked is_main.
OF_PRECISION = "(precision === '' ? datum.is_main : datum.precision === precision)"


@dataclass(frozen=True)
class Chosen:
    """What the charts show; the page sets it from its controls (report.js)."""

    mode: str = EVERY
    network: str = EVERY
    precision: str = EVERY
    batch: str = EVERY
    device: str = EVERY
    picked: str = EVERY

    def parameter(self, name: Name) -> alt.Parameter:
        """The parameter ``name`` at its first value; the page sets it later."""
        return alt.param(name=name, value=getattr(self, name))


def equals(name: Name) -> str:
    """A filter: rows of the chosen ``name``."""
    return f"datum.{name} === {name}"


def equals_or_all(name: Name) -> str:
    """A filter: rows of the chosen ``name``, all where none is, and always those without one."""
    return f"({name} === '' || datum.{name} === '' || datum.{name} === {name})"


def of_network(first: str) -> str:
    """A filter: rows of the chosen network, of ``first`` where none is chosen."""
    return f"datum.network === (network === '' ? {json.dumps(first)} : network)"


def network_title(first: str, text: str) -> alt.TitleParams:
    """``text`` and the network that is shown."""
    network = f"(network === '' ? {json.dumps(first)} : network)"
    return alt.TitleParams(text=alt.ExprRef(f"{json.dumps(text + ', ')} + {network}"))


def mode_labels(results: Results) -> dict[Key, str]:
    """The label of every device and mode in ``results``: that of its roof, where it has one."""
    frames = (results.modes, results.predictions, results.observations)
    keys = sorted(
        {key for frame in frames for key in frame.select("device", "mode").unique().iter_rows()}
    )
    several = len({device for device, _ in keys}) > 1
    roofs = {roof.label for roof in results.roofs}
    newest = {roof.mode: roof.label for roof in results.roofs}  # of several runs of one mode

    def label(device: str, mode: str) -> str:
        full = f"{device}, {mode}"
        if full in roofs:
            return full
        if several:
            return display_name(full)
        return mode if mode in roofs else newest.get(mode, mode)

    return {key: label(*key) for key in keys}


@dataclass(frozen=True)
class Control:
    """One choice: pairs of value and text, and the value chosen first."""

    name: Name
    title: str
    options: Sequence[tuple[str, str]]
    value: str

    @property
    def is_list(self) -> bool:
        """Whether its options are too many for buttons."""
        return len(self.options) > MOST_BUTTONS


def first_choice(results: Results) -> Chosen:
    """What the page shows first: the recommended mode where it has a roof, the smallest batch."""
    modes = [roof.label for roof in results.roofs]
    labels = mode_labels(results)
    picks = [each.choice for each in results.recommendations if each.choice is not None]
    wanted = [labels.get((pick.device, pick.mode), pick.mode) for pick in picks]
    mode = next((label for label in wanted if label in modes), modes[-1] if modes else EVERY)
    batches = batch_options(results)
    devices = device_options(results)
    return Chosen(
        mode=mode,
        batch=batches[0] if batches else "1",
        device=(picks[0].device if picks else devices[-1]) if len(devices) > 1 else EVERY,
        picked=wanted[0] if wanted else mode,
    )


def controls(results: Results, chosen: Chosen) -> list[Control]:
    """The controls of a page about ``results``; what leaves no choice is left out."""
    scored = results.networks.select("model", "model_hash").unique().iter_rows()
    # Others were imported with their times alone: they have modes and no place under a roof.
    networks = in_order(
        [
            *(results.names[network_key(*key)] for key in scored),
            *results.predictions["network"].unique().to_list(),
        ]
    )
    frames = (results.networks, results.predictions)
    precisions = in_order([name for each in frames for name in each["precision"].drop_nulls()])
    found = [
        Control("mode", "Power mode", _same([r.label for r in results.roofs]), chosen.mode),
        Control("network", "Network", [(EVERY, "all"), *_same(networks)], chosen.network),
        Control("precision", "Precision", [(EVERY, "all"), *_same(precisions)], chosen.precision),
        Control("batch", "Batch", _same(batch_options(results)), chosen.batch),
        Control("device", "Device", _same(device_options(results)), chosen.device),
    ]
    least = {"mode": 1, "network": 2, "precision": 3, "batch": 2, "device": 2}
    return [each for each in found if len(each.options) >= least[each.name]]


def batch_options(results: Results) -> list[str]:
    """The batch sizes of all networks, the smallest first."""
    found = {batch_text(batch) for batch in results.networks["batch"].to_list()}
    return sorted(found, key=lambda batch: (not batch.isdigit(), len(batch), batch))


def device_options(results: Results) -> list[str]:
    """The devices that networks were predicted for."""
    return in_order(results.predictions["device"].unique().to_list())


def _same(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(value, display_name(value)) for value in values]
