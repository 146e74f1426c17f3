"""Simulated boards for the tests of the simulator."""

from __future__ import annotations

from tests.simulator.simulator_bench import agx_orin, running_agx_orin

__all__ = ["agx_orin", "running_agx_orin"]
