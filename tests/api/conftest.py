"""Simulated boards for the tests of the library's functions."""

from tests.simulator.simulator_bench import agx_orin, running_agx_orin

__all__ = ["agx_orin", "running_agx_orin"]
