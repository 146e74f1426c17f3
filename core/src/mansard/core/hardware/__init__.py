"""What is known of boards beforehand: modules, their named modes, peaks, caches and power rails.

What the system reports at run time (SMs that are on, clocks, cache sizes) wins over it.
"""

from mansard.core.hardware.device_names import (
    devices_called,
    near_hint,
    plain_device,
)
from mansard.core.hardware.mode_names import (
    CLOCKS,
    COUNTS,
    SETTINGS,
    KnownMode,
    ModeMatch,
    are_near_hz,
    boards_with,
    contradict,
    find_mode,
    is_one_mode,
    name_one_mode,
)
from mansard.core.hardware.mode_order import LowerSetting, lower_settings
from mansard.core.hardware.module import CoreCluster, Metering, Module, jetpack_of, metering_of
from mansard.core.hardware.named_modes import (
    NAMED_MODES,
    WITHOUT_MODES,
    NamedMode,
    NamedModes,
    boards_called,
    boards_of,
)
from mansard.core.hardware.peaks import (
    BOARD_CACHES,
    Unit,
    active_sms,
    cache_bytes,
    l2_partitions,
    memory_bytes_per_s,
    memory_roof_bytes_per_s,
    peak_flop_per_s,
    sm_flop_per_cycle,
    sm_l1_bytes,
)
from mansard.core.hardware.table import MODULES

__all__ = [
    "BOARD_CACHES",
    "CLOCKS",
    "COUNTS",
    "MODULES",
    "NAMED_MODES",
    "SETTINGS",
    "WITHOUT_MODES",
    "CoreCluster",
    "KnownMode",
    "LowerSetting",
    "Metering",
    "ModeMatch",
    "Module",
    "NamedMode",
    "NamedModes",
    "Unit",
    "active_sms",
    "are_near_hz",
    "boards_called",
    "boards_of",
    "boards_with",
    "cache_bytes",
    "contradict",
    "devices_called",
    "find_mode",
    "is_one_mode",
    "jetpack_of",
    "l2_partitions",
    "lower_settings",
    "memory_bytes_per_s",
    "memory_roof_bytes_per_s",
    "metering_of",
    "name_one_mode",
    "near_hint",
    "peak_flop_per_s",
    "plain_device",
    "sm_flop_per_cycle",
    "sm_l1_bytes",
]
