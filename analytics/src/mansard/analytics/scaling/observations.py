"""What was measured of real networks, as one row for each network and mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.data.names import network_key
from mansard.core.records import Manifest, Measurement

_NO_POWER = "no power meter was read"


def measured_observations(
    measurements: Sequence[Measurement],
    manifests: Sequence[Manifest],
    devices: Mapping[str, str],
    names: Mapping[str, str],
) -> pl.DataFrame:
    """OBSERVATION_SCHEMA: the median latency and power of each measurement whose run is here.

    ``devices``: the device's label by run id; ``names``: the network's by ``network_key``.
    """
    modes = {manifest.run_id: manifest.mode_read_back.name for manifest in manifests}
    rows = [
        _row(found, devices[found.run_id], modes[found.run_id], names)
        for found in measurements
        if found.run_id in modes and found.run_id in devices
    ]
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def _row(found: Measurement, device: str, mode: str, names: Mapping[str, str]) -> dict[str, object]:
    latency_s = float(np.median(found.seconds_s)) if found.seconds_s else None
    power_w = _power_w(found)
    reasons = [] if latency_s is not None else ["no repetition was timed"]
    reasons += [] if power_w is not None else [found.unknown.get("energy", _NO_POWER)]
    return {
        "device": device,
        "mode": mode,
        "network": names[network_key(found.model, found.model_hash)],
        "batch": found.batch,
        "precision": found.precision,
        "phase": found.phase,
        "latency_s": latency_s,
        "power_w": power_w,
        "source": found.source,
        "citation": None,
        "reason": "; ".join(reasons) or None,
    }


def _power_w(found: Measurement) -> float | None:
    """The median over the windows whose total is known, W."""
    powers = [
        window.total_j / window.window_s
        for window in found.energy or ()
        if window.total_j is not None and window.window_s > 0
    ]
    return float(np.median(powers)) if powers else None
