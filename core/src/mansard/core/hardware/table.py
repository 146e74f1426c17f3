"""Every module by its part number."""

from __future__ import annotations

from types import MappingProxyType

from mansard.core.hardware import before_orin, orin, thor

MODULES = MappingProxyType(
    {
        part_number: module
        for module in (*orin.MODULES, *before_orin.MODULES, *thor.MODULES)
        for part_number in module.part_numbers
    }
)
