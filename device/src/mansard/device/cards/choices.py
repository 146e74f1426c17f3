"""What of a graphics card can be set: its power limit, and the clocks that it can be locked to."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mansard.core.errors import UsageError
from mansard.device.cards.card import CardLimits
from mansard.device.choosing.choices import Table

KEYS = ("power", "gpu", "emc")


class CardChoices(msgspec.Struct, frozen=True):
    """What of a card a grid may set."""

    tables: Mapping[str, Table]

    @property
    def keys(self) -> tuple[str, ...]:
        """The power limit and the clocks."""
        return KEYS

    def table(self, key: str) -> Table:
        """The values of one of ``keys``; raises UsageError where it cannot be set."""
        table = self.tables[key]
        if table.why_not:
            raise UsageError(
                f"{key} cannot be set on this card", fix=f"leave it out: {table.why_not}"
            )
        return table

    def reachable_hz(self, cpu_hz: float, n_cpus: int | None) -> float:
        """A card's mode leaves the CPU alone."""
        del n_cpus
        return cpu_hz


def card_choices(limits: CardLimits) -> CardChoices:
    """The tables of a card by its own limits."""
    return CardChoices(
        {
            "power": _power_table(limits),
            "gpu": _clock_table(limits.gpu_mhz, limits.unknown.get("gpu")),
            "emc": _clock_table(limits.memory_mhz, limits.unknown.get("memory")),
        }
    )


def _power_table(limits: CardLimits) -> Table:
    if limits.least_mw is None or limits.most_mw is None:
        return Table(why_not=limits.unknown.get("power", "it names no limits"), unit="W")
    return Table((limits.least_mw / 1e3, limits.most_mw / 1e3), is_continuous=True, unit="W")


def _clock_table(steps_mhz: tuple[int, ...], why_not: str | None) -> Table:
    if not steps_mhz:
        return Table(why_not=why_not or "it lists no clocks")
    return Table(tuple(mhz * 1e6 for mhz in steps_mhz))
