"""NVIDIA's named power modes of each board: the caps of clocks, cores and SMs behind a name.

Numbers are those of the ``nvpmodel`` configurations that NVIDIA ships, read from the files named as
each board's source. What a running board reports, and what a table says, wins over them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from mansard.core.hardware import table
from mansard.core.hardware.module import FROM_MEMORY, Module
from mansard.core.power_mode import mode_number, plain_name


class NamedMode(msgspec.Struct, frozen=True, kw_only=True):
    """A power mode by its name, without NVIDIA's ``MODE_``. A clock that is None has no cap."""

    name: str
    gpu_hz: float | None
    memory_hz: float | None
    cpu_hz: float | None
    n_cpus: int
    n_sms: int


class NamedModes(msgspec.Struct, frozen=True, kw_only=True):
    """The named modes of one board. ``gpu_hz``, ``memory_hz`` and ``cpu_hz``: without a cap.

    None where no source says how high that is. ``modes`` stand in the order of the numbers that
    NVIDIA's file gives them, from 0.
    """

    board: str
    module: Module
    memory_gb: tuple[int, ...]
    is_super: bool
    has_kit: bool  # whether NVIDIA sells it as a developer kit too
    gpu_hz: float | None
    memory_hz: float
    cpu_hz: float | None
    modes: tuple[NamedMode, ...]
    source: str
    unknown: Mapping[str, str]  # field -> why it is None

    def find(self, name: str) -> NamedMode | None:
        """The mode that ``name`` means, each clock with the cap or the board's highest.

        Names are compared as ``plain_name`` writes them; MAXN is MAXN_SUPER on a board that has no
        other. A number is that of the mode in NVIDIA's file. None if absent.
        """
        wanted = plain_name(name)
        by_name = {plain_name(mode.name): mode for mode in self.modes}
        mode = by_name.get(wanted) or (by_name.get("maxnsuper") if wanted == "maxn" else None)
        number = mode_number(name)
        if mode is None and number is not None and number < len(self.modes):
            mode = self.modes[number]
        return None if mode is None else self.uncapped(mode)

    def uncapped(self, mode: NamedMode) -> NamedMode:
        """``mode`` with the board's highest clock where it has no cap."""
        return msgspec.structs.replace(
            mode,
            gpu_hz=mode.gpu_hz or self.gpu_hz,
            memory_hz=mode.memory_hz or self.memory_hz,
            cpu_hz=mode.cpu_hz or self.cpu_hz,
        )


def boards_called(name: str) -> tuple[NamedModes, ...]:
    """The boards that ``name`` may mean: "Orin Nano" four, "Orin Nano 4GB" two of them.

    Empty where no board here has that name. A host before a colon, as in ``orin-1: Jetson AGX
    Orin``, does not count.
    """
    text = _words(name)
    part = re.search(r"\bp\d{4} \d{4}\b", text)
    modules = next((known for words, known in _MODULES if re.search(words, text)), ())
    memory_gb = _named_gb(text)
    is_super = re.search(r"\bsuper\b", text) is not None
    boards = tuple(
        board
        for board in NAMED_MODES
        if (
            part[0].replace(" ", "-") in board.module.part_numbers
            if part
            else board.module in modules
        )
        and (memory_gb is None or memory_gb in board.memory_gb)
        and (board.is_super or not is_super)
    )
    # "Orin Nano Super" is what NVIDIA calls its developer kit; the 4GB module has none.
    is_kit = re.search(r"\b(dev|developer|devkit|kit)\b", text) or (is_super and memory_gb is None)
    return tuple(board for board in boards if board.has_kit or not is_kit) or boards


def differ_in_memory(first: str, second: str) -> bool:
    """Whether both names say how many GB of memory a board has, and not the same number."""
    sizes = {_named_gb(_words(name)) for name in (first, second)}
    return None not in sizes and len(sizes) > 1


def _words(name: str) -> str:
    model = name.rpartition(": ")[2]
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model)
    return " ".join(re.findall(r"[a-z0-9]+", spaced.casefold()))


def _named_gb(words: str) -> int | None:
    size = re.search(r"\b(\d+) ?gb\b|\b(?:orin|nano|nx|xavier) (\d+)\b", words)
    return None if size is None else int(size[1] or size[2])


# In this order: "orin nano" is no "nano".
_MODULES: tuple[tuple[str, tuple[Module, ...]], ...] = (
    (
        r"\b(agx orin|orin agx)\b",
        (table.AGX_ORIN_64, table.AGX_ORIN_KIT, table.AGX_ORIN_32),
    ),
    (r"\borin nx\b", (table.ORIN_NX_16, table.ORIN_NX_8)),
    (r"\borin nano\b", (table.ORIN_NANO_8, table.ORIN_NANO_4)),
    (r"\b(agx xavier|xavier agx)\b", (table.AGX_XAVIER,)),
    (r"\bxavier nx\b", (table.XAVIER_NX,)),
    (r"\btx2 nx\b", (table.TX2_NX,)),
    (r"\btx2\b", (table.TX2,)),
    (r"\bthor\b", (table.THOR_T5000,)),
    (r"\bjetson nano\b|^nano\b", (table.NANO,)),
)


def _mode(
    name: str,
    gpu_mhz: float | None,
    memory_mhz: float | None,
    cpu_mhz: float | None,
    n_cpus: int,
    n_sms: int,
) -> NamedMode:
    hz = [None if mhz is None else round(mhz * 1e6) for mhz in (gpu_mhz, memory_mhz, cpu_mhz)]
    return NamedMode(
        name=name,
        gpu_hz=hz[0],
        memory_hz=hz[1],
        cpu_hz=hz[2],
        n_cpus=n_cpus,
        n_sms=n_sms,
    )


def _board(
    module: Module,
    memory_gb: tuple[int, ...],
    modes: tuple[NamedMode, ...],
    source: str,
    *,
    is_super: bool = False,
    has_kit: bool = True,
    cpu_mhz: float | None = None,
) -> NamedModes:
    # ``cpu_mhz``: where the module's table has that of its Super configuration. What that table has
    # from memory alone is not known here.
    knows = {name: FROM_MEMORY not in source for name, source in module.sources.items()}
    gpu_hz = module.highest_gpu_hz if is_super else module.gpu_hz
    highest_hz = max(cluster.max_hz for cluster in module.cpu_clusters)
    cpu_hz = highest_hz if cpu_mhz is None else round(cpu_mhz * 1e6)
    return NamedModes(
        board=module.name + (" Super" if is_super else ""),
        module=module,
        memory_gb=memory_gb,
        is_super=is_super,
        has_kit=has_kit,
        gpu_hz=gpu_hz if knows["gpu_hz"] else None,
        memory_hz=module.highest_memory_hz if is_super else module.memory_hz,
        cpu_hz=cpu_hz if cpu_mhz is not None or knows["cpu_clusters"] else None,
        modes=modes,
        source=source,
        unknown={name: f"{module.name}: {FROM_MEMORY}" for name in ("gpu_hz",) if not knows[name]}
        | ({} if cpu_mhz or knows["cpu_clusters"] else {"cpu_hz": f"{module.name}: {FROM_MEMORY}"}),
    )


# name, then the caps in MHz of GPU, memory (EMC) and CPU, then cores and SMs (two of each
# TPC) that are on.
_AGX_ORIN = (
    _mode("15W", 408, 2133, 1113.6, 4, 6),
    _mode("30W", 612, None, 1728, 8, 8),
)
_AGX_ORIN_64 = (
    _mode("MAXN", None, None, None, 12, 16),
    *_AGX_ORIN,
    _mode("50W", 816, None, 1497.6, 12, 16),
)
_AGX_ORIN_32 = (
    _mode("MAXN", None, None, None, 8, 14),
    *_AGX_ORIN,
    _mode("40W", 816, None, 1497.6, 8, 14),
)
_ORIN_NX_10W = _mode("10W", 612, 2133, 1190.4, 4, 4)
_ORIN_NX_16 = (
    _mode("MAXN", None, None, None, 8, 8),
    _ORIN_NX_10W,
    _mode("15W", 612, None, 1651.2, 4, 4),
    _mode("25W", 408, None, 1497.6, 8, 8),
)
_ORIN_NX_16_SUPER = (
    _mode("MAXN_SUPER", None, None, None, 8, 8),
    _ORIN_NX_10W,
    _mode("15W", 612, None, 1420.8, 4, 4),
    _mode("25W", 408, None, 1497.6, 8, 8),
    _mode("40W", 1173, None, 1497.6, 8, 8),
)
_ORIN_NX_8_FIXED = (
    _ORIN_NX_10W,
    _mode("15W", 612, None, 1420.8, 4, 4),
    _mode("20W", 408, None, 1497.6, 6, 8),
)
_ORIN_NX_8 = (_mode("MAXN", None, None, None, 6, 8), *_ORIN_NX_8_FIXED)
_ORIN_NX_8_SUPER = (
    _mode("MAXN_SUPER", None, None, None, 6, 8),
    *_ORIN_NX_8_FIXED,
    _mode("40W", 1173, None, 1984, 6, 8),
)
_NANO_7W = _mode("7W", 408, 2133, 960, 4, 4)
_ORIN_NANO_8 = (_mode("15W", None, None, None, 6, 8), _NANO_7W)
_ORIN_NANO_8_SUPER = (
    _mode("15W", 612, 2133, 1497.6, 6, 8),
    _mode("25W", 918, 3199, 1344, 6, 8),
    _mode("MAXN_SUPER", None, None, None, 6, 8),
    _NANO_7W,
)
_ORIN_NANO_4 = (
    _mode("10W", None, None, None, 6, 4),
    _mode("7W_AI", 408, 2133, 806.4, 4, 4),
    _mode("7W_CPU", 306, 2133, 960, 4, 4),
)
_ORIN_NANO_4_SUPER = (
    _mode("10W", 612, 2133, 1497.6, 6, 4),
    _mode("25W", 1020, 3199, 1728, 6, 4),
    _mode("MAXN_SUPER", None, None, None, 6, 4),
)
_AGX_XAVIER = (
    _mode("MAXN", None, None, None, 8, 8),
    _mode("10W", 520, 1065.6, 1200, 2, 4),
    _mode("15W", 670, 1331.2, 1200, 4, 8),
    _mode("30W_ALL", 900, 1600, 1200, 8, 8),
    _mode("30W_6CORE", 900, 1600, 1450, 6, 8),
    _mode("30W_4CORE", 900, 1600, 1780, 4, 8),
    _mode("30W_2CORE", 900, 1600, 2100, 2, 8),
    _mode("15W_DESKTOP", 670, 1331.2, 2188.8, 4, 8),
)
_XAVIER_NX = (
    _mode("15W_2CORE", 1109.25, 1600, 1907.2, 2, 6),
    _mode("15W_4CORE", 1109.25, 1600, 1420.8, 4, 6),
    _mode("15W_6CORE", 1109.25, 1600, 1420.8, 6, 6),
    _mode("10W_2CORE", 803.25, 1600, 1497.6, 2, 6),
    _mode("10W_4CORE", 803.25, 1600, 1190.4, 4, 6),
    _mode("10W_DESKTOP", 510, 1600, 1907.2, 4, 6),
    _mode("20W_2CORE", 1109.25, 1866, 1907.2, 2, 6),
    _mode("20W_4CORE", 1109.25, 1866, 1420.8, 4, 6),
    _mode("20W_6CORE", 1109.25, 1866, 1420.8, 6, 6),
)
_TX2 = (
    _mode("MAXN", None, None, None, 6, 2),
    _mode("MAXQ", 850, 1331.2, 1200, 4, 2),
    _mode("MAXP_CORE_ALL", 1120, 1600, 1400, 6, 2),
    _mode("MAXP_CORE_ARM", 1120, 1600, 2000, 4, 2),
)
_TX2_NX = (_TX2[0], _mode("MAXQ", 850, 1600, 1200, 4, 2), *_TX2[2:])
_NANO = (_mode("MAXN", None, None, None, 4, 1), _mode("5W", 640, 1600, 918, 2, 1))
_THOR = (_mode("MAXN", None, None, None, 14, 20),)

NAMED_MODES = (
    _board(table.AGX_ORIN_64, (64,), _AGX_ORIN_64, "nvpmodel_p3701_0000.conf"),
    _board(table.AGX_ORIN_KIT, (32, 64), _AGX_ORIN_64, "nvpmodel_p3701_0000.conf"),
    _board(table.AGX_ORIN_32, (32,), _AGX_ORIN_32, "nvpmodel_p3701_0004.conf", has_kit=False),
    _board(table.ORIN_NX_16, (16,), _ORIN_NX_16, "nvpmodel_p3767_0000.conf"),
    _board(
        table.ORIN_NX_16, (16,), _ORIN_NX_16_SUPER, "nvpmodel_p3767_0000_super.conf", is_super=True
    ),
    _board(table.ORIN_NX_8, (8,), _ORIN_NX_8, "nvpmodel_p3767_0001.conf"),
    _board(
        table.ORIN_NX_8, (8,), _ORIN_NX_8_SUPER, "nvpmodel_p3767_0001_super.conf", is_super=True
    ),
    _board(
        table.ORIN_NANO_8,
        (8,),
        _ORIN_NANO_8,
        "nvpmodel_p3767_0003.conf; CPU without a cap: 1510.4 MHz, as jetson_clocks --show prints "
        "on several developer kits in 15W; NVIDIA's data sheet says 1.5 GHz",
        cpu_mhz=1510.4,
    ),
    _board(
        table.ORIN_NANO_8,
        (8,),
        _ORIN_NANO_8_SUPER,
        "nvpmodel_p3767_0003_super.conf; 7W as in nvpmodel_p3767_0003.conf, whose clocks others "
        "recorded in 7W of a Super kit under r36.4.7",
        is_super=True,
    ),
    _board(
        table.ORIN_NANO_4,
        (4,),
        _ORIN_NANO_4,
        "nvpmodel_p3767_0004.conf; CPU without a cap: that of the 8GB module, as both have "
        "1.5 GHz in NVIDIA's data sheet",
        cpu_mhz=1510.4,
        has_kit=False,
    ),
    _board(
        table.ORIN_NANO_4,
        (4,),
        _ORIN_NANO_4_SUPER,
        "nvpmodel_p3767_0004_super.conf",
        is_super=True,
        has_kit=False,
    ),
    _board(table.AGX_XAVIER, (16, 32, 64), _AGX_XAVIER, "nvpmodel_t194.conf"),
    _board(table.XAVIER_NX, (8, 16), _XAVIER_NX, "nvpmodel_t194_p3668.conf"),
    _board(table.TX2, (8,), _TX2, "nvpmodel_t186.conf"),
    _board(table.TX2_NX, (4,), _TX2_NX, "nvpmodel_t186_p3636.conf"),
    _board(table.NANO, (2, 4), _NANO, "a dump by nvpmodel -p --verbose"),
    # The caps of its other modes are in no file that others published.
    _board(table.THOR_T5000, (128,), _THOR, "the module's highest clocks; MAXN has no caps"),
)

# Modules that stand in the table and have no named modes here, and why.
WITHOUT_MODES = MappingProxyType(
    {
        table.AGX_ORIN_INDUSTRIAL.name: "its nvpmodel configuration was not available",
        table.TX2_SMALL.name: "their nvpmodel configuration was not available",
    }
)


def boards_of(module: Module | None) -> tuple[NamedModes, ...]:
    """The boards of a module: in its plain and in its Super configuration."""
    return tuple(board for board in NAMED_MODES if board.module == module)
