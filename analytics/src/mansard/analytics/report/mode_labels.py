"""What a page calls a mode of a device: the label of its roof, where it has one."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from mansard.analytics.data.names import shown
from mansard.analytics.results import Results

Key = tuple[str, str]  # device and mode, as the frames of the models have them


def mode_labels(results: Results) -> dict[Key, str]:
    """The label of every device and mode in ``results``: of modes, predictions and observations."""
    frames = (results.modes, results.predictions, results.observations)
    keys = sorted({key for frame in frames for key in _keys(frame)})
    several = len({device for device, _ in keys}) > 1
    roofs = {roof.label for roof in results.roofs}
    by_mode: dict[str, list[str]] = {}
    for roof in results.roofs:
        by_mode.setdefault(roof.mode, []).append(roof.label)
    return {key: _label(key, several, roofs, by_mode) for key in keys}


def _label(key: Key, several: bool, roofs: set[str], by_mode: dict[str, list[str]]) -> str:
    device, mode = key
    full = f"{device}, {mode}"
    if full in roofs:
        return full
    if not several:
        # Several runs of one mode: their labels say more than the mode, the last is the newest.
        return mode if mode in roofs or mode not in by_mode else by_mode[mode][-1]
    return shown(full)


def _keys(frame: pl.DataFrame) -> Iterable[Key]:
    return frame.select("device", "mode").unique().iter_rows()
