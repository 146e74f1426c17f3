"""How much longer real latencies are than the bounds of the roofs, for each device.

A device that ran networks has ratios of its own. A GPU without any has those that were recorded
with TensorRT, if its roofs are peaks that Mansard measured or limits of the hardware. Published
rates are no bounds: how far a better kernel exceeds them is unknown.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mansard.analytics.data.published.store import devices_of_rates
from mansard.analytics.data.quantities import MILLI, digits
from mansard.analytics.decisions.roof_times import expected_span_s
from mansard.analytics.models.predict.row_times import measured_ratios
from mansard.analytics.pages.figures.parameters import roof_devices
from mansard.analytics.pages.results import Results
from mansard.core.units import ROOF_ENGINE, ROOF_RATIOS

_BOUND = "≥, ≤: the bound of the roofs"
_RECORDED = "Recorded latency was " + ", ".join(
    f"{low:.1f} to {high:.3g} times (median {digits(middle, 2)}) the bound with {engine}"
    for engine, (low, middle, high) in ROOF_RATIOS.items()
)


@dataclass(frozen=True)
class Practice:
    """``ratios``: measured latency over the bound, in order; ``is_recorded``: recorded ones apply;
    ``is_bound``: no kernel is known to exceed the roofs."""

    ratios: tuple[float, ...] = ()
    is_recorded: bool = False
    is_bound: bool = True

    def text(self, bound_s: float | None) -> str:
        """The range of real latencies in ms, from the bound; empty where it is unknown."""
        if bound_s is None or not (self.ratios or self.is_recorded):
            return ""
        if self.ratios:
            ends = (bound_s * self.ratios[0], bound_s * self.ratios[-1])
        else:
            least_s, longest_s = expected_span_s(bound_s)
            ends = (float(least_s), float(longest_s))
        first, last = (digits(end_s / MILLI, 2) for end_s in ends)
        return first if first == last else f"{first} to {last}"

    @property
    def note(self) -> str:
        """A sentence on the bounds in a table."""
        if not self.is_bound:
            return f"{_BOUND}, by published rates, which better kernels may exceed."
        return f"{_BOUND}." if self.ratios else f"{_BOUND}. {_RECORDED}."


def find_practices(results: Results) -> dict[str, Practice]:
    """For each device that has a roof."""
    names, published = roof_devices(results), devices_of_rates(results.published)
    processors = {names[roof.label]: roof.processor for roof in results.roofs}
    return {
        device: Practice(
            ratios=tuple(measured_ratios(row for row in results.measured if row.device == device)),
            is_recorded=processor == "gpu" and device not in published,
            is_bound=device not in published,
        )
        for device, processor in processors.items()
    }


def practice_title(practices: Collection[Practice]) -> str:
    """The title of the column beside bounds, of the devices in a table."""
    if all(practice.ratios for practice in practices):
        return "In practice, ms"
    if any(practice.ratios for practice in practices):
        return "Expected, ms"
    return f"Expected with {ROOF_ENGINE}, ms"
