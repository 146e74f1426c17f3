"""A network on a core of the deep learning accelerator (DLA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.inference.engines.tensorrt.versions import Version
from mansard.inference.plan import BuildSettings

PRECISIONS = ("fp16", "int8")
_SHOWN = 3


@dataclass(frozen=True)
class Placement:
    """The layers that a DLA core can run, and how many there are; constants are none."""

    n_layers: int
    lacking: tuple[str, ...]  # names of those that it cannot run

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where the network has no layer."""
        return 1 - len(self.lacking) / self.n_layers if self.n_layers else None


def check_dla(settings: BuildSettings, precision: str, version: Version, n_cores: int) -> None:
    """Raise MeasurementError where no DLA core can be used in this way."""
    if not version.has("dla"):
        raise MeasurementError(
            f"{version.name} cannot build for a DLA",
            fix="leave the DLA out, or use a version up to 10.7 or from 11.4.1 on",
        )
    if settings.dla_core is not None and settings.dla_core >= n_cores:
        has = f"{n_cores} DLA core{'' if n_cores == 1 else 's'}" if n_cores else "no DLA core"
        raise MeasurementError(
            f"there is no DLA core {settings.dla_core}: this device has {has}",
            fix="leave the DLA out" if n_cores == 0 else f"give 0 to {n_cores - 1}",
        )
    if precision not in PRECISIONS:
        raise MeasurementError(f"a DLA has no {precision}", fix=f"use {' or '.join(PRECISIONS)}")
    if settings.ranges:
        raise MeasurementError("a DLA runs networks of fixed dimensions alone", fix="fix them all")


def place_on_dla(
    bindings: Any, config: Any, network: Any, settings: BuildSettings, where: str
) -> Placement:
    """Have all layers that a DLA core can run run there.

    Raises MeasurementError where it cannot run all and the GPU is not allowed for the rest.
    """
    config.default_device_type = bindings.DeviceType.DLA
    config.DLA_core = settings.dla_core
    if settings.with_fallback:
        config.set_flag(bindings.BuilderFlag.GPU_FALLBACK)
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    layers = [layer for layer in layers if layer.type != bindings.LayerType.CONSTANT]
    lacking = tuple(layer.name for layer in layers if not config.can_run_on_DLA(layer))
    if lacking and not settings.with_fallback:
        raise MeasurementError(
            f"the DLA lacks {len(lacking)} of {len(layers)} layers: {_names(lacking)}",
            where=where,
            fix="allow the GPU for the rest",
        )
    return Placement(len(layers), lacking)


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
