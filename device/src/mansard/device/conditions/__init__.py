"""What a machine does while a trial runs, and whether that disturbed the trial."""

from mansard.device.conditions.disturbances import disturbances
from mansard.device.conditions.mode_settings import mode_lost
from mansard.device.conditions.other_work import OtherWork
from mansard.device.conditions.sources import Sources, find_sources
from mansard.device.conditions.telemetry import Telemetry
from mansard.device.conditions.watch import Watch

__all__ = [
    "OtherWork",
    "Sources",
    "Telemetry",
    "Watch",
    "disturbances",
    "find_sources",
    "mode_lost",
]
