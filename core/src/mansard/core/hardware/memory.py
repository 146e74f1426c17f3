"""What a module's memory leaves to a program: its size less carve-outs and the system.

Firmware and the GPU, display and camera processors of a Jetson keep parts of the memory for
themselves before Linux starts (carve-outs), so MemTotal is below the nominal size. The totals are
those that ``tegrastats`` prints (RAM used/total, in MiB) in public logs:

- Orin Nano 8GB: 7607 (hokwangchoi/jetson-orin-nano-benchmarks), 7620
  (gwonxhj/jetson-orin-nano-internal-lab), both JetPack 6
- Orin NX 16GB: 15656 (a log of JetPack 6)
- AGX Orin 32GB: 30536 to 30698 (BroncoSpace-Lab/scales-hardware, r35 and r36)
- AGX Orin 64GB: 62780 (r35) to 62841 (r36)
- Thor: 125749 to 125772 (NVIDIA/skills, obiedeh/bench2field; JetPack 7)
- Xavier NX 8GB: 6854 (r35) to 7773 (r32); AGX Xavier 16GB: 15692, 32GB: 31919 (r31, r32)
- TX2: 7844 to 7859; Nano 4GB: 3956 to 3984 (r32)

Of Orin Nano 4GB and Orin NX 8GB no log was found: their carve-outs are taken to be those of
Orin Nano 8GB and Orin NX 16GB, 572 to 728 MiB, which have the same chip.

What the system itself uses: from 944 MiB, the least of the logs of an idle Orin Nano (text console,
JetPack 6), to 1748 MiB, the most of them (desktop); modules of 32 GB and more 1313 to 3492 MiB, the
idle lines of AGX Orin (used 1313, 2448 and 3492) and Thor (3429). Before JetPack 6 (r32, r35) from
330 MiB of a Nano and 448 of a TX2 to 1903 of an AGX Xavier.
"""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from mansard.core.errors import UsageError
from mansard.core.hardware.device_names import near_hint, plain_device
from mansard.core.hardware.named_modes import boards_called, differ_in_memory

_MIB = 1 << 20
_SMALL, _LARGE, _OLD = (944, 1748), (1313, 3492), (330, 1903)  # MiB that the system uses
_LOGS = "MemTotal in public logs of tegrastats, less what idle boards use"
_LIKE = "carve-outs of modules with the same chip, less what idle boards use"


class MemoryCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine can give to a program: from ``low_bytes`` surely to ``high_bytes`` at most.

    ``total_bytes``: that programs and the system share, MemTotal of Linux.
    """

    name: str
    low_bytes: int
    high_bytes: int
    total_bytes: int
    source: str


def _module(
    name: str,
    total_mib: tuple[int, int],
    system_mib: tuple[int, int] = _SMALL,
    source: str = _LOGS,
) -> MemoryCapacity:
    (low_mib, high_mib), (least, most) = total_mib, system_mib
    return MemoryCapacity(
        name=name,
        low_bytes=(low_mib - most) * _MIB,
        high_bytes=(high_mib - least) * _MIB,
        total_bytes=low_mib * _MIB,
        source=source,
    )


# By the name that a person gives.
MODULE_MEMORY = MappingProxyType(
    {
        "orin-nano-4gb": _module("Jetson Orin Nano 4GB", (4096 - 728, 4096 - 572), _SMALL, _LIKE),
        "orin-nano-8gb": _module("Jetson Orin Nano 8GB", (7607, 7620)),
        "orin-nx-8gb": _module("Jetson Orin NX 8GB", (8192 - 728, 8192 - 572), _SMALL, _LIKE),
        "orin-nx-16gb": _module("Jetson Orin NX 16GB", (15656, 15656)),
        "agx-orin-32gb": _module("Jetson AGX Orin 32GB", (30536, 30698), _LARGE),
        "agx-orin-64gb": _module("Jetson AGX Orin 64GB", (62780, 62841), _LARGE),
        "thor-128gb": _module("Jetson Thor T5000", (125749, 125772), _LARGE),
        "xavier-nx-8gb": _module("Jetson Xavier NX 8GB", (6854, 7773), _OLD),
        "agx-xavier-16gb": _module("Jetson AGX Xavier 16GB", (15692, 15692), _OLD),
        "agx-xavier-32gb": _module("Jetson AGX Xavier 32GB", (31919, 31919), _OLD),
        "tx2-8gb": _module("Jetson TX2", (7844, 7859), _OLD),
        "nano-4gb": _module("Jetson Nano 4GB", (3956, 3984), _OLD),
    }
)


def module_memory(name: str) -> MemoryCapacity:
    """What a module called ``name`` gives: ``orin-nano-8gb``, ``Jetson AGX Orin 64GB``, ``thor``.

    Raises UsageError for a name that none has, or several have; either lists what is meant.
    """
    plain = plain_device(name)
    matches = _modules_of_board(name) or [
        key for key in MODULE_MEMORY if plain and plain in plain_device(key)
    ]
    if len(matches) == 1:
        return MODULE_MEMORY[matches[0]]
    what = f"several modules are called {name!r}" if matches else f"no module is called {name!r}"
    hint = "" if matches else near_hint(name, tuple(MODULE_MEMORY))
    raise UsageError(
        what, fix=f"{hint}use one of {', '.join(matches or MODULE_MEMORY)}, or a folder"
    )


def _modules_of_board(name: str) -> list[str]:
    """The keys of the boards that ``name`` may mean: of "Orin Nano Super" the one of 8 GB."""
    boards = boards_called(name)
    return [
        key
        for key, memory in MODULE_MEMORY.items()
        if not differ_in_memory(name, key)
        and any(board in boards for board in boards_called(memory.name))
    ]
