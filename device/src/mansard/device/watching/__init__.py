"""A live view of one machine: what it does now, what limits it, and how that goes on."""

from mansard.device.watching.board import BoardWatch
from mansard.device.watching.ticks import SHORTEST_INTERVAL_S, Wait, samples, sleep

__all__ = ["SHORTEST_INTERVAL_S", "BoardWatch", "Wait", "samples", "sleep"]
