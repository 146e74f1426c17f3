"""The clocks of the machine, of whatever generation, and every setting that belongs to them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mansard.device.clocks.cpu import find_clusters, read_online
from mansard.device.clocks.domain import Domain, why_not_writable
from mansard.device.clocks.emc import Emc, find_emc
from mansard.device.clocks.gpu import find_gpu_clocks
from mansard.device.system import SYSTEM_ROOT, below, find_paths, follow_links

# The caps of the deep-learning accelerators: r32 and r35 below acm, r36 without it.
_DLA_PLACES = (
    "/sys/devices/platform/bus@0/*.host1x/*.nvdla[0-9]/acm/clk_cap/dla[0-9]_core",
    "/sys/devices/platform/*.host1x/*.nvdla[0-9]/acm/clk_cap/dla[0-9]_core",
    "/sys/devices/platform/*.host1x/*.nvdla[0-9]/clk_cap/dla[0-9]_core",
    "/sys/devices/platform/bus@0/*.host1x/*.nvdla[0-9]/clk_cap/dla[0-9]_core",
)


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """What can be clocked here. ``online``: every CPU, and whether it is on."""

    cpu: tuple[Domain, ...]  # clusters of which at least one CPU is on
    gpu: Domain | None
    emc: Emc | None
    dla: tuple[Domain, ...]
    gpu_others: tuple[Domain, ...]  # video engines with a clock of their own
    online: dict[int, bool]

    def domains(self) -> tuple[Domain, ...]:
        """All of them in one row."""
        single = [self.gpu, self.emc.domain if self.emc else None]
        return (*self.cpu, *(one for one in single if one is not None), *self.dla)


def find_clocks(root: Path = SYSTEM_ROOT) -> Clocks:
    """Every clock domain of the machine; what it does not have is empty or None."""
    gpus = find_gpu_clocks(root)
    return Clocks(
        cpu=find_clusters(root),
        gpu=gpus[0] if gpus else None,
        emc=find_emc(root),
        dla=_find_dla(root),
        gpu_others=gpus[1:],
        online=read_online(root),
    )


def _find_dla(root: Path) -> tuple[Domain, ...]:
    found: dict[Path, Domain] = {}
    for place in _DLA_PLACES:
        for path in find_paths(root, place):
            real = follow_links(below(root, path))
            if real not in found:
                name = path.rpartition("/")[2]
                why_not = why_not_writable(root, path)
                found[real] = Domain(name=name, kind="dla", max_path=path, why_not=why_not)
    return tuple(found.values())
