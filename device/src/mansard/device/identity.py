"""Which machine this is: board or computer, CPUs, caches, GPU, driver and system.

A Jetson's module, chip and release are read from the device tree and /etc. The module is found by
its part number, P-number and SKU (``p3701-0005``). Boards keep it in several places, the surest
first: ``chosen/ids`` and ``chosen/plugin-manager/ids`` are copied from the module's EEPROM by the
boot loader (``3701-0005-500 3737-0000-…``), ``chosen/nvidia,sku`` as well (``699-13701-0005-500``);
``compatible`` and ``nvidia,dtsfilename`` tell which device tree was chosen, and that can be shared
by modules.

Containers hide the device tree (Docker masks /sys/firmware). There /sys/devices/soc0 still
tells the board's name and, on NVIDIA's older kernels, its chip; the module stays unknown.
Source: Documentation/ABI/testing/sysfs-devices-soc of the Linux kernel.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.hardware import MODULES, Module, jetpack_of
from mansard.core.hashing import ID_CHARACTERS
from mansard.core.records import Board, MachineIdentity
from mansard.core.storage.files import check_descriptors
from mansard.core.text import printable
from mansard.device.cards import UNNAMED, listed_cards
from mansard.device.system import (
    SYSTEM_ROOT,
    glob,
    is_there,
    read_head,
    read_text,
    run_tool,
    usable_cpus,
)
from mansard.device.topology import (
    cpu_quota,
    data_caches,
    memory_limit_bytes,
    online_cpus,
    physical_cores,
    present_cpus,
)

TREE = "proc/device-tree"
_SOC_DEVICE = "sys/devices/soc0"
_RELEASE_FILE = "etc/nv_tegra_release"
_SHOWN_CHARACTERS = 200  # of names that a file gives; no real one is longer
_FILE_CHARACTERS = 1 << 16  # more than any of these files holds
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
    return read_head(path, _FILE_CHARACTERS)


def _l4t(root: Path) -> str | None:
    match = _RELEASE.search(_text(root / _RELEASE_FILE))
    return f"{match[1]}.{match[2]}" if match else None


_CUDA = "usr/local/cuda"
_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?"
_DRIVER = re.compile(rf"\b({_VERSION})\b")
_CUDA_VERSION = re.compile(rf"CUDA Version ({_VERSION})")
_NVCC_VERSION = re.compile(rf"\bV({_VERSION})")


def read_driver(root: Path) -> str | None:
    """Version of NVIDIA's kernel driver that is loaded; None if there is none."""
    for path in ("proc/driver/nvidia/version", "sys/module/nvidia/version"):
        # The first line names the driver, the second the compiler that built it.
        line = read_head(root / path, _FILE_CHARACTERS).partition("\n")[0]
        match = _DRIVER.search(line)
        if match:
            return match[1]
    return None


def read_cuda(root: Path) -> str | None:
    """Version of the CUDA toolkit in /usr/local/cuda; None if there is none."""
    folder = root / _CUDA
    version = _json_version(read_head(folder / "version.json", _FILE_CHARACTERS))
    if version is None:
        match = _CUDA_VERSION.search(read_head(folder / "version.txt", _FILE_CHARACTERS))
        version = match[1] if match else None
    return version or _compiler_version(folder / "bin/nvcc")


def read_cards(root: Path) -> tuple[str, ...]:
    """Models of the cards that the driver shows, safe to print."""
    cards = []
    for information in glob(root / "proc/driver/nvidia/gpus", "*/information"):
        text = read_head(information, _FILE_CHARACTERS)
        match = re.search(r"^Model:[ \t]*(\S.*)$", text, re.MULTILINE)
        model = printable(match[1], _SHOWN_CHARACTERS) if match else None
        cards.append(model or UNNAMED)
    return tuple(cards)


def _json_version(text: str) -> str | None:
    try:
        version = msgspec.json.decode(text)["cuda"]["version"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, str) and re.fullmatch(_VERSION, version) else None


@cache  # commands identify the machine several times
def _compiler_version(compiler: Path) -> str | None:
    # Toolkits without either file: those of distributions. The compiler answers in 20 ms.
    if not is_there(compiler):
        return None
    try:
        match = _NVCC_VERSION.search(run_tool([compiler, "--version"], timeout_s=10).text)
    except DeviceError:
        return None
    return match[1] if match else None


SIMULATED_MARK = "etc/mansard-simulated"
_READ_CHARACTERS = 1 << 20  # of files of which a line is wanted
_REASONS = {
    "memory_bytes": "/proc/meminfo has no MemTotal line",
    "machine_hash": "neither a serial number nor /etc/machine-id can be read",
    "board": "the device tree does not name a Jetson",
    "cuda": "no CUDA toolkit in /usr/local/cuda",
    "driver": "NVIDIA's kernel driver is not loaded, or does not tell its version",
}


def identify(
    root: Path = SYSTEM_ROOT, allowed_cpus: tuple[int, ...] | None = None
) -> MachineIdentity:
    """The machine under ``root``; ``cpus`` holds one logical CPU per physical core.

    ``allowed_cpus`` defaults to the CPUs this process may run on. On a Jetson, cores that
    the power mode switches off count as well, unless we are kept from some that are on:
    the identity does not hang on the mode. On a simulated board our own machine's CPUs
    limit the board's. A container's quota of CPU time limits their number, and its
    memory limit the memory.
    """
    jetson = is_jetson(root)
    allowed = allowed_cpus or _allowed_cpus(root, jetson)
    cpus = _within_quota(physical_cores(root, allowed), cpu_quota(root))
    machine_hash, memory_bytes = _machine_hash(root), _memory_bytes(root)
    board = read_board(root) if jetson else None
    cuda, driver, cards = read_cuda(root), read_driver(root), read_cards(root)
    if not cards and not jetson and root == SYSTEM_ROOT:
        cards, listed_driver = listed_cards()
        driver = driver or listed_driver
    values = (memory_bytes, machine_hash, board, cuda, driver)  # in the order of the reasons
    return MachineIdentity(
        kind="jetson" if jetson else "gpu" if cards else "cpu",
        name=_name(root),
        is_simulated=is_simulated(root),
        architecture=platform.machine(),
        cpus=cpus,
        caches=data_caches(root, cpus, find_module(root) if jetson else None),
        memory_bytes=memory_bytes,
        operating_system=_operating_system(root),
        kernel_release=_kernel_release(root),
        machine_hash=machine_hash,
        accelerators=cards,
        board=board,
        cuda=cuda,
        driver=driver,
        unknown={
            field: why
            for (field, why), value in zip(_REASONS.items(), values, strict=True)
            if value is None
        },
    )


def is_simulated(root: Path) -> bool:
    """Whether ``root`` is a made-up board: everything measured on it is simulated."""
    return is_there(root / SIMULATED_MARK)


def _allowed_cpus(root: Path, jetson: bool) -> tuple[int, ...]:
    usable = usable_cpus()
    present, online = set(present_cpus(root)), set(online_cpus(root))
    if root != SYSTEM_ROOT:
        # A made-up board: its CPUs, as far as this machine has them for us.
        return tuple(cpu for cpu in usable if cpu in present) or usable
    if jetson and online and online <= set(usable):
        return tuple(sorted(present | online))
    return usable


def _within_quota(cpus: tuple[int, ...], quota: float | None) -> tuple[int, ...]:
    # A thread more than the quota pays for would have all of them stopped in turns.
    return cpus if quota is None else cpus[: max(1, int(quota))]


def _name(root: Path) -> str:
    model = read_model(root)
    if model:
        return model
    fields = _cpuinfo(root)
    name = fields.get("model name") or fields.get("Hardware")
    if not name:
        return f"{platform.machine()} processor"
    return printable(re.sub(r"\s+", " ", name), _SHOWN_CHARACTERS)


def _cpuinfo(root: Path) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in read_head(root / "proc/cpuinfo", _READ_CHARACTERS).splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    return fields


def _memory_bytes(root: Path) -> int | None:
    text = read_head(root / "proc/meminfo", _READ_CHARACTERS)
    match = re.search(r"^MemTotal:[ \t]*([0-9]{1,15}) kB$", text, re.M)
    if match is None:
        return None
    total_bytes = int(match[1]) * 1024
    return min(total_bytes, memory_limit_bytes(root) or total_bytes)


def _operating_system(root: Path) -> str:
    text = read_head(root / "etc/os-release", _READ_CHARACTERS)
    match = re.search(r'^PRETTY_NAME="?(.*?)"?$', text, re.M)
    return printable(match[1], _SHOWN_CHARACTERS) if match else platform.system()


def _kernel_release(root: Path) -> str:
    release = read_text(root / "proc/sys/kernel/osrelease") or platform.release()
    return printable(release, _SHOWN_CHARACTERS)


def _machine_hash(root: Path) -> str | None:
    # Jetson boards carry a serial number; two boards flashed from one image share a machine id.
    serial = read_text(root / TREE / "serial-number")
    identifier = serial or read_text(root / "etc/machine-id")
    if not identifier:
        return None
    # Salted, so that the published hash cannot be matched with the id used elsewhere.
    salted = f"mansard machine {identifier}".encode()
    return hashlib.sha256(salted).hexdigest()[:ID_CHARACTERS]
