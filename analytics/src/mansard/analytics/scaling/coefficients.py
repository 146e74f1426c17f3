"""What was measured, as the frames that models exchange: modes, coefficients and observations.

One mode of a device is one set of rows. Of several runs in one mode the newest one counts: first
those that came to their end, of them those of the most trials, of them the one begun last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from mansard.analytics.data.dataset import device_id, processor_of
from mansard.analytics.data.model_frames import COEFFICIENT_SCHEMA, MODE_SCHEMA, OBSERVATION_SCHEMA
from mansard.analytics.data.names import device_labels, display_name, network_key
from mansard.analytics.energy.fit import Coefficient, EnergyFit
from mansard.analytics.roofs.ceilings import Ceiling
from mansard.analytics.roofs.roofline import Roofline
from mansard.analytics.scaling.repeats import repetition_deviation
from mansard.core.records import Manifest, Measurement, Source

TENSOR, CUDA = "tensor core", "CUDA core"  # a CPU's work is said to be on the latter too
_TENSOR_ENDING = " tensor"  # of an energy fit's names


def newest_runs(manifests: Sequence[Manifest]) -> tuple[Manifest, ...]:
    """One run for each mode of each device, in the order of their first."""
    best: dict[tuple[str, str], Manifest] = {}
    for manifest in manifests:
        mode = (device_id(manifest), manifest.mode_read_back.name)
        if mode not in best or _rank(manifest) > _rank(best[mode]):
            best[mode] = manifest
    return tuple(best.values())


def run_notes(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    """One line for each mode of a device that several runs measured: which of them counts."""
    labels, counted = device_labels(manifests), newest_runs(manifests)
    n_runs = Counter((device_id(m), m.mode_read_back.name) for m in manifests)
    return tuple(
        f"{labels[run.run_id]}: {n_runs[mode]} runs in mode {display_name(mode[1])}; what is "
        f"modelled rests on that of {run.started_utc[:16].replace('T', ' ')}"
        for run in counted
        for mode in ((device_id(run), run.mode_read_back.name),)
        if n_runs[mode] > 1
    )


def _rank(manifest: Manifest) -> tuple[bool, int, str, str]:
    is_finished = manifest.finished_utc is not None
    return (is_finished, manifest.n_trials, manifest.started_utc, manifest.run_id)


def measured_modes(manifests: Sequence[Manifest], roofs: Sequence[Roofline]) -> pl.DataFrame:
    """MODE_SCHEMA: one row for each mode of each device that was measured.

    The GPU's clock is no setting of a CPU's device and null there; SMs are those that were on
    while the kernels ran. Runs without a roof are left out.
    """
    labels, by_run = device_labels(manifests), {roof.run_id: roof for roof in roofs}
    rows = []
    for manifest in newest_runs(manifests):
        if manifest.run_id not in by_run:
            continue
        mode, is_gpu = manifest.mode_read_back, processor_of(manifest) == "gpu"
        rows.append(
            {
                "device": labels[manifest.run_id],
                "mode": mode.name,
                "gpu_hz": mode.gpu_hz if is_gpu else None,
                "memory_hz": mode.memory_hz,
                "cpu_hz": mode.cpu_hz,
                "n_sms": by_run[manifest.run_id].n_sms if is_gpu else None,
                "n_cpus": mode.n_cpus,
                "power_limit_w": mode.power_limit_w,
            }
        )
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def measured_coefficients(
    manifests: Sequence[Manifest],
    roofs: Sequence[Roofline],
    energies: Mapping[str, EnergyFit],
) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA of the modes of ``measured_modes``.

    Peaks, bandwidths of every level for what is mostly read, and where the run was metered the
    costs of its fit; what has no value is there with the reason. What it takes to launch a
    kernel is not measured.
    """
    labels, by_run = device_labels(manifests), {roof.run_id: roof for roof in roofs}
    frames = [
        roof_coefficients(
            by_run[manifest.run_id],
            energies.get(manifest.run_id),
            device=labels[manifest.run_id],
            mode=manifest.mode_read_back.name,
        )
        for manifest in newest_runs(manifests)
        if manifest.run_id in by_run
    ]
    return pl.concat([pl.DataFrame(schema=COEFFICIENT_SCHEMA), *frames])


def roof_coefficients(
    roof: Roofline, energy: EnergyFit | None, *, device: str, mode: str
) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA of one roof, under any names; ``energy``: None where not metered."""
    names = {"device": device, "mode": mode}
    rows = [{**names, **row} for row in _roof_rows(roof, energy)]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def _roof_rows(roof: Roofline, energy: EnergyFit | None) -> Iterator[dict[str, object]]:
    for peak in roof.peaks:
        unit = TENSOR if peak.family == "tensor" else CUDA
        yield _row("peak", peak.subject, unit, peak, roof.source)
    for level in roof.levels:
        bandwidth = roof.traffic_bandwidth(level.name)
        yield _row("bandwidth", level.name, "", bandwidth, roof.source)
    if energy is None:
        return
    for name, cost in energy.flop_j.items():
        is_tensor = name.endswith(_TENSOR_ENDING)
        precision = name.removesuffix(_TENSOR_ENDING)
        yield _row("flop_energy", precision, TENSOR if is_tensor else CUDA, cost, roof.source)
    for name, cost in energy.byte_j.items():
        yield _row("byte_energy", name, "", cost, roof.source)
    yield _row("constant_power", "", "", energy.constant_w, roof.source)


def _row(
    quantity: str, subject: str, unit: str, found: Ceiling | Coefficient, source: Source
) -> dict[str, object]:
    return {
        "quantity": quantity,
        "subject": subject,
        "unit": unit,
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "source": source,
        "error": None,
        "n_fitted": None,
        "is_extrapolated": False,
        "reason": found.unknown.get("value") or found.unknown.get("low"),
    }


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
        _observation_row(found, devices[found.run_id], modes[found.run_id], names)
        for found in measurements
        if found.run_id in modes and found.run_id in devices
    ]
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def _observation_row(
    found: Measurement, device: str, mode: str, names: Mapping[str, str]
) -> dict[str, object]:
    latency_s = float(np.median(found.seconds_s)) if found.seconds_s else None
    powers = _powers_w(found)
    power_w = float(np.median(powers)) if powers else None
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
        "latency_deviation": repetition_deviation(found.seconds_s),
        "power_w": power_w,
        "power_deviation": repetition_deviation(powers),
        "source": found.source,
        "citation": None,
        "reason": "; ".join(reasons) or None,
    }


def _powers_w(found: Measurement) -> list[float]:
    """The mean power of each window whose total is known and above 0, W."""
    return [
        window.total_j / window.window_s
        for window in found.energy or ()
        if window.total_j is not None and window.total_j > 0 and window.window_s > 0
    ]
