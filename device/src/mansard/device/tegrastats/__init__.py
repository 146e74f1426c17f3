"""tegrastats: lines of every release r28 to r39, read and summed up."""

from mansard.device.tegrastats.parse import Parser, parse_line, stream
from mansard.device.tegrastats.sample import (
    Cpu,
    EngineLoad,
    FreeBlocks,
    MemoryAmount,
    Rail,
    TegrastatsSample,
    Temperature,
    Usage,
)

__all__ = [
    "Cpu",
    "EngineLoad",
    "FreeBlocks",
    "MemoryAmount",
    "Parser",
    "Rail",
    "TegrastatsSample",
    "Temperature",
    "Usage",
    "parse_line",
    "stream",
]
