"""Whether an engine can run a trial in this process."""

from __future__ import annotations

from mansard.core.errors import MeasurementError
from mansard.inference.engines.engine import EngineProbe
from mansard.inference.plan import NetworkTrial


def check_provider(spec: NetworkTrial, probe: EngineProbe) -> None:
    """Raise MeasurementError where the engine, or the trial's provider, is not there."""
    fix = "'mansard doctor' says what is missing"
    if probe.providers is None:
        raise MeasurementError(probe.unknown["providers"], fix=fix)
    if spec.provider not in probe.providers:
        reason = probe.absent.get(spec.provider, "it has no such provider")
        raise MeasurementError(f"{spec.engine} cannot run on {spec.provider}: {reason}", fix=fix)
