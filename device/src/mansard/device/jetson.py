"""Which Jetson this is: its module, chip and release, from the device tree and /etc.

The module is found by its part number, P-number and SKU (``p3701-0005``). Boards keep it
in several places, the surest first: ``chosen/ids`` and ``chosen/plugin-manager/ids`` are
copied from the module's EEPROM by the boot loader (``3701-0005-500 3737-0000-…``),
``chosen/nvidia,sku`` as well (``699-13701-0005-500``); ``compatible`` and
``nvidia,dtsfilename`` tell which device tree was chosen, and that can be shared by
modules.

Containers hide the device tree (Docker masks /sys/firmware). There /sys/devices/soc0 still
tells the board's name and, on NVIDIA's older kernels, its chip; the module stays unknown.
Source: Documentation/ABI/testing/sysfs-devices-soc of the Linux kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mansard.core.hardware import MODULES, Module, jetpack_of
from mansard.core.records import Board
from mansard.core.storage.files import check_descriptors
from mansard.core.text import printable
from mansard.device.system import read_head, read_text

TREE = "proc/device-tree"
_SOC_DEVICE = "sys/devices/soc0"
_RELEASE_FILE = "etc/nv_tegra_release"
_SHOWN_CHARACTERS = 200  # no model's name is longer
_READ_CHARACTERS = 1 << 16  # more than any of these files holds on a board
_JETSON = re.compile(r"jetson|tegra[0-9]|\borin\b|xavier", re.IGNORECASE)
_SOC = re.compile(r"\btegra[0-9]{3}\b")
_PART = re.compile(r"(?<![0-9])p?([0-9]{4})-([0-9]{4})(?![0-9])")
_SKU = re.compile(r"699-1([0-9]{4})-([0-9]{4})")
_RELEASE = re.compile(
    r"^# R([0-9]{1,3}) \(release\), REVISION: ([0-9]{1,3}(?:\.[0-9]{1,3}){0,2})\b", re.MULTILINE
)
# P-numbers of modules; other four digits are carriers, and modules that we do not know.
_MODULE_NUMBERS = frozenset(part[:5] for part in MODULES)
_GATING_MASKS = (
    "sys/devices/gpu.0/tpc_pg_mask",
    "sys/devices/platform/gpu.0/tpc_pg_mask",
)


def read_model(root: Path) -> str | None:
    """The board's name for people, safe to show; None on a machine that has none."""
    model = _model(root)
    return printable(model, _SHOWN_CHARACTERS) if model else None


def is_jetson(root: Path) -> bool:
    """Whether the machine calls itself a Jetson."""
    return bool(_JETSON.search(f"{_model(root)} {_tree_text(root, 'compatible')}"))


def read_board(root: Path) -> Board:
    """The Jetson under ``root``; what it does not say stays unknown, with the reason."""
    part_number = _part_number(root)
    module = MODULES.get(part_number or "")
    soc = _SOC.search(" ".join(_chip_texts(root)))
    l4t = _l4t(root)
    jetpack = jetpack_of(l4t) if l4t else None
    reasons = {
        "module": (module, _why_no_module(part_number)),
        "part_number": (part_number, "the device tree names no module that we know"),
        "soc": (soc, "the device tree names no Tegra chip"),
        "l4t": (l4t, f"/{_RELEASE_FILE} names no release"),
        "jetpack": (jetpack, f"no JetPack is known for L4T {l4t}" if l4t else "L4T is unknown"),
    }
    return Board(
        module=module.name if module else None,
        part_number=part_number,
        soc=soc[0] if soc else None,
        l4t=l4t,
        jetpack=jetpack,
        unknown={field: why for field, (value, why) in reasons.items() if value is None},
    )


def find_module(root: Path) -> Module | None:
    """What is known of the Jetson module under ``root``; None if it is not in the table."""
    return MODULES.get(_part_number(root) or "")


def read_gating_mask(root: Path) -> int | None:
    """The mask of TPCs that are switched off at present; None where the board shows none."""
    for path in _GATING_MASKS:
        text = read_text(root / path) or ""
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return None


def _why_no_module(part_number: str | None) -> str:
    if part_number is None:
        return "the device tree names no module that we know"
    return f"{part_number} is not in the table of modules"


def _part_number(root: Path) -> str | None:
    """The first part number of a module in the surest place, whether or not its SKU is listed."""
    return next((part for text in _places(root) for part in _parts(text)), None)


def _places(root: Path) -> Iterator[str]:
    yield _tree_text(root, "chosen/ids")
    yield " ".join(_names(root / TREE / "chosen/plugin-manager/ids"))
    for number, sku in _SKU.findall(_tree_text(root, "chosen/nvidia,sku")):
        yield f"{number}-{sku}"
    yield _tree_text(root, "compatible")
    yield _tree_text(root, "nvidia,dtsfilename")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        check_descriptors(error, folder)
        return []  # only releases up to r32 have this folder


def _parts(text: str) -> Iterator[str]:
    for number, sku in _PART.findall(text):
        if f"p{number}" in _MODULE_NUMBERS:
            yield f"p{number}-{sku}"


def _model(root: Path) -> str:
    return _tree_text(root, "model") or _text(root / _SOC_DEVICE / "machine")


def _chip_texts(root: Path) -> Iterator[str]:
    yield _tree_text(root, "compatible")
    yield _tree_text(root, "nvidia,dtsfilename")
    yield _text(root / _SOC_DEVICE / "family")


def _tree_text(root: Path, name: str) -> str:
    # Lists in the device tree are separated by NUL.
    return _text(root / TREE / name).replace("\0", " ")


def _text(path: Path) -> str:
    return read_head(path, _READ_CHARACTERS)


def _l4t(root: Path) -> str | None:
    match = _RELEASE.search(_text(root / _RELEASE_FILE))
    return f"{match[1]}.{match[2]}" if match else None
