"""The memory clock (EMC): its cap, and the debug files that hold it at one rate.

Sources: facts gathered from public listings and configurations. The cap is nvpmodel's:
nvpmodel_emc_cap/emc_iso_cap on L4T r32 and r35, nvpmodel_clk_cap/emc from r36. The rate is held
through the boot processor's debug files (TX2 to Orin), override.emc (TX1, Nano), or devfreq's
bwmgr (Thor). From r36 on the boot processor manages bandwidth itself, and people's scripts for
Orin halt that as well (bwmgr_halt). All debug files are root's alone.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.device.clocks.domains import UNCAPPED_HZ, Domain, read_frequencies, why_not_writable
from mansard.device.system import below, exists, read_int

CAPS = ("/sys/kernel/nvpmodel_clk_cap/emc", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap")
BWMGR = "/sys/class/devfreq/bwmgr"
_DEBUG = "/sys/kernel/debug"


class Lock(msgspec.Struct, frozen=True):
    """The files that hold the memory clock: write 1 to ``switches``, then the rate in Hz.

    The first switch is there wherever the rate is; of the others only some kernels have all.
    """

    rate: str
    switches: tuple[str, ...]
    floor: str
    ceiling: str


LOCKS = (
    Lock(
        f"{_DEBUG}/bpmp/debug/clk/emc/rate",
        (
            f"{_DEBUG}/bpmp/debug/clk/emc/mrq_rate_locked",
            f"{_DEBUG}/bpmp/debug/clk/emc/state",
            f"{_DEBUG}/bpmp/debug/bwmgr/bwmgr_halt",
        ),
        f"{_DEBUG}/bpmp/debug/clk/emc/min_rate",
        f"{_DEBUG}/bpmp/debug/clk/emc/max_rate",
    ),
    Lock(
        f"{_DEBUG}/clk/override.emc/clk_update_rate",
        (f"{_DEBUG}/clk/override.emc/clk_state",),
        f"{_DEBUG}/tegra_bwmgr/emc_min_rate",
        f"{_DEBUG}/tegra_bwmgr/emc_max_rate",
    ),
    Lock(  # L4T r28
        f"{_DEBUG}/clock/override.emc/rate",
        (f"{_DEBUG}/clock/override.emc/state",),
        f"{_DEBUG}/clock/emc/min",
        f"{_DEBUG}/clock/emc/max",
    ),
)
# In kHz but for the mainline driver's list; seen with "(kHz)" behind the numbers on r36.
_TABLES = (
    (f"{_DEBUG}/bpmp/debug/emc/possible_rates", 1000),
    (f"{_DEBUG}/bpmp/debug/clk/emc/possible_rates", 1000),
    (f"{_DEBUG}/clk/override.emc/clk_possible_rates", 1000),
    (f"{_DEBUG}/clock/emc/possible_rates", 1000),
    (f"{_DEBUG}/emc/available_rates", 1),
)


class Emc(msgspec.Struct, frozen=True, kw_only=True):
    """The memory clock: as a domain (devfreq's files on Thor), its cap and its lock."""

    domain: Domain
    cap_path: str | None
    lock: Lock | None

    @property
    def can_be_held(self) -> bool:
        """Whether there are files that hold its rate, beside those that cap it."""
        return self.lock is not None or self.domain.max_path is not None

    def cap_hz(self, root: Path) -> float | None:
        """The cap in force, or None where there is none: 0, -1 and huge values mean uncapped."""
        value = read_int(below(root, self.cap_path)) if self.cap_path else None
        return float(value) if value is not None and 0 < value < UNCAPPED_HZ else None

    def locked_hz(self, root: Path) -> float | None:
        """The rate that the clock is held at; None where it is left to the system."""
        if self.lock is None:
            low, high = (
                self.domain.read_hz(root, path)
                for path in (self.domain.min_path, self.domain.max_path)
            )
            return high if low == high else None
        if read_int(below(root, self.lock.switches[0])) != 1:
            return None
        return self.domain.read_hz(root, self.lock.rate)

    def top_hz(self, root: Path) -> float | None:
        """The highest rate the memory can have under its present cap."""
        if self.domain.max_path is not None:
            return self.domain.read_hz(root, self.domain.max_path)
        tops = [
            self.lock and self.domain.read_hz(root, self.lock.ceiling),
            self.domain.available_hz[-1] if self.domain.available_hz else None,
        ]
        known = [top for top in tops if top]
        caps = [cap for cap in (self.cap_hz(root),) if cap]
        return min([max(known), *caps]) if known else next(iter(caps), None)


def find_emc(root: Path) -> Emc | None:
    """The memory clock's files; None on a machine that shows none of them."""
    cap_path = next((path for path in CAPS if exists(root, path)), None)
    has_devfreq = exists(root, f"{BWMGR}/max_freq")
    # Thor has the debug files too; devfreq is the kernel's own way, and open to all readers.
    locks = () if has_devfreq else LOCKS
    lock = next((lock for lock in locks if exists(root, lock.rate)), None)
    if cap_path is None and lock is None and not has_devfreq:
        return None
    paths = (f"{BWMGR}/max_freq", f"{BWMGR}/min_freq") if has_devfreq else (None, None)
    held = [path for path in (lock.rate, *lock.switches) if exists(root, path)] if lock else []
    domain = Domain(
        name="emc",
        kind="emc",
        available_hz=_available(root, has_devfreq),
        max_path=paths[0],
        min_path=paths[1],
        cur_path=lock.rate if lock else f"{BWMGR}/cur_freq" if has_devfreq else None,
        why_not=why_not_writable(root, cap_path, *paths, *held),
    )
    return Emc(domain=domain, cap_path=cap_path, lock=lock)


def _available(root: Path, has_devfreq: bool) -> tuple[float, ...]:
    if has_devfreq:
        listed = read_frequencies(root, f"{BWMGR}/available_frequencies", 1)
        if listed:
            return listed
    for path, unit_hz in _TABLES:
        listed = read_frequencies(root, path, unit_hz)
        if listed and listed[-1] >= UNCAPPED_HZ:  # then this kernel's table is in Hz
            listed = read_frequencies(root, path, 1)
        if listed:
            return listed
    return ()


def emc_settings(root: Path) -> tuple[str, ...]:
    """Every file of the memory clock that Mansard or the board's tools may change."""
    paths = [*CAPS, f"{BWMGR}/max_freq", f"{BWMGR}/min_freq", f"{BWMGR}/governor"]
    for lock in LOCKS:
        paths += [lock.rate, *lock.switches]
    return tuple(path for path in paths if exists(root, path))
