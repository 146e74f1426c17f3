"""The limits of the numbers in a line: a lost slash, point or comma gives numbers beyond them.

The limits hold for all boards together, with room. They find damaged lines; a board that runs too
hot may lie within them.

    power        AGX Thor draws up to 130 W (NVIDIA, Jetson T5000 data sheet); idle rails go
                 slightly below zero, by up to 0.4 W in recorded lines
    temperature  Jetsons shut down at 105 °C and start from -40 °C (their thermal design guides);
                 PMIC shows a constant 50 or 100
    load         a share of time
    clock        the memory of AGX Thor runs at 4.27 GHz, the fastest of all
    memory       what is in use lies within what there is

tegrastats prints no voltage.
"""

from __future__ import annotations

import msgspec


class ImplausibleError(ValueError):
    """A number that cannot be true; the text says why."""


class PlausibleRange(msgspec.Struct, frozen=True):
    """The least and the most that a quantity can be, in ``unit``."""

    quantity: str
    least: float
    most: float
    unit: str

    def check(self, *values: float) -> None:
        """Raises ImplausibleError for a value outside the limits."""
        for value in values:
            if not self.least <= value <= self.most:
                limits = f"{self.least:g} to {self.most:g}"
                raise ImplausibleError(
                    f"{value:.6g} {self.unit} cannot be a {self.quantity}: {limits}"
                )


POWER = PlausibleRange("power of a rail", -20.0, 200.0, "W")
TEMPERATURE = PlausibleRange("temperature of a board", -60.0, 150.0, "°C")
LOAD = PlausibleRange("load", 0.0, 100.0, "%")
CLOCK = PlausibleRange("clock", 0.0, 6000.0, "MHz")
MEMORY = PlausibleRange("memory of a board", 0.0, 2.0**41, "B")
