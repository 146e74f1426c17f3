"""What a reader can choose, once for all charts of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mansard.analytics.charts.data import batch_text
from mansard.analytics.charts.parameters import EVERY, Chosen, Name
from mansard.analytics.data.names import in_order, network_key, shown
from mansard.analytics.report.mode_labels import mode_labels
from mansard.analytics.results import Results

MOST_BUTTONS = 4  # more options than this are a list that opens


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
    return [(value, shown(value)) for value in values]
