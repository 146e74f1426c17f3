"""Power modes of a higher nominal power that have a lower clock, or fewer cores or SMs.

NVIDIA's modes are caps of several clocks under one power. A mode that switches more cores on may
cap each of them lower: 50W of AGX Orin 64GB caps the CPU at 1497.6 MHz, 30W at 1728 MHz
(``nvpmodel_p3701_0000.conf``). A network that its host bounds is slower in such a mode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby

import msgspec

from mansard.core.hardware.mode_names import CLOCKS, ROUNDED, KnownMode
from mansard.core.power_mode import nominal_w
from mansard.core.text import printable

# Of each setting: what it is called, and what is slower where it is lower.
_WORDS = {
    "cpu_hz": ("CPU clock", "a network bound by its host (launches, work on the CPU)"),
    "memory_hz": ("memory clock", "a network bound by memory"),
    "gpu_hz": ("GPU clock", "a network whose kernels do not fill the SMs"),
    "n_cpus": ("cores", "work that uses all cores"),
    "n_sms": ("SMs", "a network bound by arithmetic of the GPU"),
}
_CLOCK_OF = {"n_cpus": "cpu_hz", "n_sms": "gpu_hz"}  # a count does its work at this clock


class LowerSetting(msgspec.Struct, frozen=True, kw_only=True):
    """The mode ``higher``, of more nominal power than ``lower``, has less of ``setting``.

    ``higher_value`` and ``lower_value``: of the setting in both modes, in Hz or a count.
    ``n_modes``: how many modes have less of it than one below them; ``higher`` lacks most.
    """

    setting: str
    higher: str
    lower: str
    higher_value: float
    lower_value: float
    n_modes: int

    @property
    def text(self) -> str:
        """Both modes, what they have, and which networks are slower in the higher one."""
        higher, lower = printable(self.higher), printable(self.lower)
        what, slower = _WORDS[self.setting]
        one, other = (self._shown(value) for value in (self.higher_value, self.lower_value))
        has = f"a {what} of {one}" if self.setting in CLOCKS else f"{one} {what}"
        others = self.n_modes - 1
        more = f"; the same holds of {others} more mode{'s' * (others > 1)}" if others else ""
        return (
            f"{higher} has {has}, {lower} {other}: {slower} is slower in {higher}, though its "
            f"nominal power is higher{more}"
        )

    def _shown(self, value: float) -> str:
        return f"{value / 1e6:.5g} MHz" if self.setting in CLOCKS else f"{value:g}"


def lower_settings(
    modes: Iterable[KnownMode], among: Collection[str] | None = None
) -> tuple[LowerSetting, ...]:
    """For each setting the pair of ``modes`` of one board that contradicts their nominal powers.

    Of such pairs the one with the largest ratio. ``among``: the names of those that may be the
    mode of more power, all by default. Nominal powers are those of the names
    (``nominal_w``); modes without one, and settings that are not known, are in no pair. Clocks
    within what tables round (2 %) are equal. Fewer cores or SMs count where their clock does not
    make up for it.
    """
    by_power = sorted((mode for mode in modes if nominal_w(mode.name) > 0), key=_nominal_w)
    pairs = (_worst(setting, by_power, among) for setting in _WORDS)
    return tuple(pair for pair in pairs if pair is not None)


def _nominal_w(mode: KnownMode) -> float:
    return nominal_w(mode.name)


def _worst(
    setting: str, by_power: Sequence[KnownMode], among: Collection[str] | None
) -> LowerSetting | None:
    """The pair of one setting; ``by_power``: modes by ascending nominal power."""
    known = [mode for mode in by_power if mode.settings.get(setting)]
    factor = _CLOCK_OF.get(setting, "")
    if not all(mode.settings.get(factor) for mode in known):
        factor = ""
    capacities = [_amount(mode, setting) * (_amount(mode, factor) or 1.0) for mode in known]
    best: tuple[float, KnownMode] | None = None  # of the modes below: the most of the setting
    pairs: list[tuple[float, KnownMode, KnownMode]] = []
    ranked = zip(capacities, known, strict=True)
    for _, group in groupby(ranked, key=lambda pair: _nominal_w(pair[1])):
        members = list(group)
        if best is not None:
            pairs += [
                (best[0] / capacity, mode, best[1])
                for capacity, mode in members
                if among is None or mode.name in among
            ]
        best = max([best, *members] if best else members, key=lambda pair: pair[0])
    below = [pair for pair in pairs if pair[0] > ROUNDED and _has_less(setting, *pair[1:])]
    if not below:
        return None
    _, higher, lower = max(below, key=lambda pair: pair[0])
    return LowerSetting(
        setting=setting,
        higher=higher.name,
        lower=lower.name,
        higher_value=_amount(higher, setting),
        lower_value=_amount(lower, setting),
        n_modes=len(below),
    )


def _has_less(setting: str, higher: KnownMode, lower: KnownMode) -> bool:
    return _amount(higher, setting) < _amount(lower, setting)


def _amount(mode: KnownMode, setting: str) -> float:
    return mode.settings.get(setting) or 0.0
