"""What runs know of contention for memory, with its fits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.models.contention import VictimContention


def measured_contention(
    runs: Sequence[str | Path], *, newest_only: bool = False
) -> tuple[VictimContention, ...]:
    """What folders of runs know of contention, by machine, mode and accelerator, with its fit.

    ``newest_only``: leave out what does not go with the newest run of a device instead of refusing
    it. Raises InputError, StorageError.
    """
    from mansard.analytics.data.opening import open_runs

    return contention_of(open_runs(runs, newest_only=newest_only))


def contention_of(dataset: Dataset) -> tuple[VictimContention, ...]:
    """What a dataset knows of contention, with its fits."""
    from mansard.analytics.models.contention import measured_contention as find

    return tuple(map(_with_fit, find(dataset)))


def _with_fit(found: VictimContention) -> VictimContention:
    import numpy as np

    from mansard.analytics.models.contention import FitLine
    from mansard.scheduler.contention import curve, fit_pccs

    if found.surface is None:
        return found
    fit = fit_pccs(found.surface)
    most = found.surface.external_byte_per_s[-1]
    lines = []
    for own in found.surface.own_byte_per_s:
        external, speed = curve(fit, own)
        ends = [*(x for x in external if x < most), most]
        speeds = np.interp(ends, external, speed).tolist()
        lines.append(FitLine(own_byte_per_s=own, external_byte_per_s=(*ends,), speed=(*speeds,)))
    unknown = {name: why for name, why in found.unknown.items() if name != "fit"}
    return msgspec.structs.replace(found, fit=fit, fit_lines=tuple(lines), unknown=unknown)
