"""The stand-in of TensorRT and of the CUDA runtime, as modules of this process or of children."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parent / "tensorrt_stand_in"
VERSIONS = ("8.6.2", "10.3.0")
_PACKAGES = ("tensorrt", "cuda", "stand_in_device")


@contextmanager
def played(version: str = VERSIONS[-1], device: str = "orin", **variables: str) -> Iterator[None]:
    """Let ``tensorrt`` and ``cuda`` be the stand-in, here and in processes that are started.

    ``device``: "orin", "thor", "rtx", or "none" for no driver; ``variables`` as
    ``STAND_IN_STEP_S`` of the stand-in's modules.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STAND_IN_TENSORRT", version)
        patch.setenv("STAND_IN_DEVICE", device)
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(FOLDER), prepend=":")
        # Not by ``patch``, which would also take back what onnxruntime.transformers appends.
        sys.path.insert(0, str(FOLDER))
        importlib.invalidate_caches()
        before = _taken_out()
        try:
            yield
        finally:
            sys.path.remove(str(FOLDER))
            _taken_out()
            sys.modules.update(before)


def put_program(folder: Path) -> Path:
    """A program ``trtexec`` in ``folder``, which is to be put on PATH."""
    path = folder / "trtexec"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {FOLDER}/trtexec_program.py "$@"\n')
    path.chmod(0o755)
    return path


def _taken_out() -> dict[str, ModuleType]:
    """What was imported of the packages, which are imported anew afterwards."""
    names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    return {name: sys.modules.pop(name) for name in names}
