"""NVIDIA's driver, cards and CUDA toolkit, from files that tell without a GPU at work."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.text import printable
from mansard.device.system import glob, is_there, read_head, run_tool

_CUDA = "usr/local/cuda"
_READ_CHARACTERS = 1 << 16  # more than any of these files holds
_SHOWN_CHARACTERS = 200
_VERSION = r"[0-9]{1,4}\.[0-9]{1,4}(?:\.[0-9]{1,4})?"
_DRIVER = re.compile(rf"\b({_VERSION})\b")
_CUDA_VERSION = re.compile(rf"CUDA Version ({_VERSION})")
_NVCC_VERSION = re.compile(rf"\bV({_VERSION})")


def read_driver(root: Path) -> str | None:
    """Version of NVIDIA's kernel driver that is loaded; None if there is none."""
    for path in ("proc/driver/nvidia/version", "sys/module/nvidia/version"):
        # The first line names the driver, the second the compiler that built it.
        line = read_head(root / path, _READ_CHARACTERS).partition("\n")[0]
        match = _DRIVER.search(line)
        if match:
            return match[1]
    return None


def read_cuda(root: Path) -> str | None:
    """Version of the CUDA toolkit in /usr/local/cuda; None if there is none."""
    folder = root / _CUDA
    version = _json_version(read_head(folder / "version.json", _READ_CHARACTERS))
    if version is None:
        match = _CUDA_VERSION.search(read_head(folder / "version.txt", _READ_CHARACTERS))
        version = match[1] if match else None
    return version or _compiler_version(folder / "bin/nvcc")


def read_cards(root: Path) -> tuple[str, ...]:
    """Models of the cards that the driver shows, safe to print."""
    cards = []
    for information in glob(root / "proc/driver/nvidia/gpus", "*/information"):
        text = read_head(information, _READ_CHARACTERS)
        match = re.search(r"^Model:[ \t]*(\S.*)$", text, re.MULTILINE)
        model = printable(match[1], _SHOWN_CHARACTERS) if match else None
        cards.append(model or "NVIDIA GPU of unknown model")
    return tuple(cards)


def _json_version(text: str) -> str | None:
    try:
        version = msgspec.json.decode(text)["cuda"]["version"]
    except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
        return None
    return version if isinstance(version, str) and re.fullmatch(_VERSION, version) else None


def _compiler_version(compiler: Path) -> str | None:
    # Toolkits without either file: those of distributions. The compiler answers in 20 ms.
    if not is_there(compiler):
        return None
    try:
        match = _NVCC_VERSION.search(run_tool([compiler, "--version"], timeout_s=10).output)
    except DeviceError:
        return None
    return match[1] if match else None
