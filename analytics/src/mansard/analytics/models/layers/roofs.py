"""The roofs of an engine's layers, from one of three sources.

Measured: the ceilings of one run. Published: the limits of a board's hardware in a mode
(``data/published/hardware.py``), or rates that a person gives. One source makes all roofs of a
table; sources are never mixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.models.predict.columns import NO_SLOWER_THAN_FP32
from mansard.analytics.models.roofs.ceilings import DRAM, CeilingFamily
from mansard.analytics.models.roofs.gpu_kernels import ONE_BY_ONE
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.core.errors import UsageError
from mansard.core.records import PublishedRate, Record, Source

PeakKey = tuple[str, CeilingFamily]


class MemoryRoof(Record, frozen=True, kw_only=True):
    """One level of memory. ``capacity_bytes``: of a cache, where it is known."""

    name: str
    bytes_per_s: float
    capacity_bytes: int | None


@dataclass(frozen=True)
class LayerRoofs:
    """``levels``: DRAM first, then caches from the farthest. ``why``: why no roof is known."""

    label: str = ""
    source: Source = "published"
    peaks: Mapping[PeakKey, float] = field(default_factory=dict)
    levels: tuple[MemoryRoof, ...] = ()
    launch_s: float | None = None
    why: str = ""

    def peak(self, precision: str, *, on_tensor_cores: bool) -> tuple[str, float] | None:
        """The name and the value of the peak for work in ``precision``; None if it is unknown.

        Without a peak of tensor cores the work runs on CUDA cores. Half precision is not slower
        there than fp32, whose peak is used where that of half precision is unknown.
        """
        if on_tensor_cores and (precision, "tensor") in self.peaks:
            return f"{precision} tensor", self.peaks[precision, "tensor"]
        names = [precision, *(["fp32"] if precision in {*NO_SLOWER_THAN_FP32, "tf32"} else [])]
        for name in names:
            if (name, "fma") in self.peaks:
                return name, self.peaks[name, "fma"]
        return None


def roofs_of_run(roofline: Roofline) -> LayerRoofs:
    """The ceilings that were measured in a run, or published as a table of rates."""
    peaks: dict[PeakKey, float] = {
        (peak.subject, peak.family): peak.value
        for peak in roofline.peaks
        if peak.value is not None and peak.family in {"fma", "tensor"}
    }
    levels = []
    for level in reversed(roofline.levels):
        roof = roofline.bandwidth(level.name)
        if roof.value is not None:
            levels.append(_memory(level.name, roof.value, level.capacity_bytes))
    launches = [launch.value_s for launch in roofline.launches if launch.kernel == ONE_BY_ONE]
    return LayerRoofs(
        label=roofline.label,
        source=roofline.source,
        peaks=MappingProxyType(peaks),
        levels=tuple(levels),
        launch_s=launches[0] if launches else None,
        why="" if peaks or levels else f"{roofline.label} has no ceiling with a value",
    )


def _memory(name: str, bytes_per_s: float, capacity_bytes: int | None = None) -> MemoryRoof:
    unknown = {} if capacity_bytes is not None else {"capacity_bytes": "its size is unknown"}
    return MemoryRoof(
        name=name, bytes_per_s=bytes_per_s, capacity_bytes=capacity_bytes, unknown=unknown
    )


def roofs_of_hardware(device: str, mode: str | None) -> LayerRoofs:
    """The limits of a Jetson's hardware in one of its named modes; raises UsageError."""
    rates = hardware_rates(device).rates
    modes = list(dict.fromkeys(rate.mode.name for rate in rates))
    chosen = mode if mode is not None else modes[0] if len(modes) == 1 else None
    if chosen not in modes:
        what = "no mode is given" if mode is None else f"{mode!r} is not a mode of {device}"
        raise UsageError(what, fix=f"say --mode with one of {', '.join(modes)}")
    of_mode = [rate for rate in rates if rate.mode.name == chosen]
    return LayerRoofs(
        label=f"hardware of {of_mode[0].device}, {chosen}",
        peaks=MappingProxyType(_peaks(of_mode)),
        levels=tuple(
            _memory(rate.subject, rate.value) for rate in of_mode if rate.quantity == "bandwidth"
        ),
    )


def _peaks(rates: Sequence[PublishedRate]) -> dict[PeakKey, float]:
    families: dict[str, CeilingFamily] = {"CUDA core": "fma", "tensor core": "tensor"}
    return {
        (rate.subject, families[rate.unit]): rate.value for rate in rates if rate.quantity == "peak"
    }


def roofs_given(
    peaks: Mapping[PeakKey, float], bandwidth: float | None, launch_s: float | None
) -> LayerRoofs:
    """Roofs that a person gives, in FLOP/s, bytes/s and seconds of a launch."""
    return LayerRoofs(
        label="rates as given",
        peaks=MappingProxyType(dict(peaks)),
        levels=() if bandwidth is None else (_memory(DRAM, bandwidth),),
        launch_s=launch_s,
    )
