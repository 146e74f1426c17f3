"""The one import of TensorRT's Python bindings, and what to do where they are missing."""

from __future__ import annotations

import importlib
import os
from typing import Any

from mansard.core.errors import MeasurementError

# Names another module with TensorRT's interface, such as ``tensorrt_rtx_bindings``.
MODULE_VARIABLE = "MANSARD_TENSORRT"
_REMEDY = (
    "on a Jetson use the Python of a JetPack image, which has it in dist-packages, or --engine "
    "trtexec; on a PC install tensorrt from NVIDIA's package index"
)


def load_bindings() -> Any:
    """The module ``tensorrt``, or the one that MANSARD_TENSORRT names.

    Raises MeasurementError where it is missing, or cannot be imported.
    """
    name = os.environ.get(MODULE_VARIABLE) or "tensorrt"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise _broken(name, error) from error
        raise MeasurementError(f"{name} is not installed", fix=_REMEDY) from error
    except (ImportError, OSError, RuntimeError, AttributeError) as error:  # its libraries
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> MeasurementError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return MeasurementError(f"{name} cannot be imported: {lines[0]}", fix=_REMEDY)
