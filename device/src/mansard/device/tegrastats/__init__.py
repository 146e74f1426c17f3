"""tegrastats: lines of every release r28 to r39, read and summed up."""

from mansard.device.tegrastats.parse import Parser, parse_line, stream
from mansard.device.tegrastats.sample import (
    Amount,
    Cpu,
    Engine,
    FreeBlocks,
    Rail,
    TegrastatsSample,
    Temperature,
    Usage,
)

__all__ = [
    "Amount",
    "Cpu",
    "Engine",
    "FreeBlocks",
    "Parser",
    "Rail",
    "TegrastatsSample",
    "Temperature",
    "Usage",
    "parse_line",
    "stream",
]
