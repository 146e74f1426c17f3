"""Whether a card is slowed down by heat or by its hardware, as NVML says.

Source: NVIDIA, NVML API Reference, nvmlClocksEventReasons. At its power limit a card lowers its
clock as well (0x04): the limit is a part of the mode, and work at it the card's usual state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mansard.core.errors import DeviceError
from mansard.device.cards import card_handle, load_nvml, nvml_errors
from mansard.device.system import SYSTEM_ROOT

POWER_CAP = 0x04
HARDWARE = 0x08  # set beside one of the next three, or alone where the hardware says no more
DRIVER_HEAT = 0x20
HARDWARE_HEAT = 0x40
POWER_BRAKE = 0x80  # of the power supply, not of the limit
_SLOWDOWNS = HARDWARE | DRIVER_HEAT | HARDWARE_HEAT | POWER_BRAKE


class CardSlowdowns(msgspec.Struct, frozen=True):
    """The first card, as it is asked; ``why_not``: why a trial on it cannot ask."""

    nvml: Any = None
    card: Any = None
    why_not: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is a card to ask."""
        return self.nvml is not None

    def read_alarms(self) -> tuple[int | None, ...]:
        """1 while the card is slowed down; None where it does not answer, empty without a card."""
        if self.nvml is None:
            return ()
        try:
            reasons = int(self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.card))
        except nvml_errors(self.nvml):
            return (None,)
        return (int(bool(reasons & _SLOWDOWNS)),)


def find_card_slowdowns(root: Path, *, uses_gpu: bool) -> CardSlowdowns:
    """The first card, where the GPU is used and NVML says why its clocks are low."""
    if not uses_gpu:
        return CardSlowdowns()
    if root != SYSTEM_ROOT:
        return CardSlowdowns(why_not="NVML answers for this machine only")
    try:
        nvml = load_nvml()
        card = card_handle(nvml, 0, None)
    except DeviceError as error:
        return CardSlowdowns(why_not=str(error))
    found = CardSlowdowns(nvml, card)
    silent = CardSlowdowns(why_not="NVML does not say why the card's clocks are low")
    return silent if None in found.read_alarms() else found
