"""The text of the CUDA C++ kernels, which ships beside the code, and how it is compiled."""

from __future__ import annotations

from pathlib import Path

from mansard.core.hashing import file_hash

_FOLDER = Path(__file__).parent / "sources"

_SHARED = ("access.cuh", "sweep.cuh")

# For NVRTC 11.4 and newer, which JetPack 5 has. No headers are needed.
OPTIONS = ("--std=c++17",)


def read_source(*names: str) -> str:
    """The files of a kernel as one text, what all kernels share in front."""
    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in (*_SHARED, *names)]
    return "\n".join(texts)


def hash_source(text: str) -> str:
    """Hash of a kernel's text and of the options it is compiled with."""
    return file_hash("\0".join((text, *OPTIONS)).encode())[:16]
