"""The libraries of the extra ``export``: imported here, late, with one clear line where absent."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mansard.core.errors import MansardError
from mansard.core.onnx_runtime import forbid_telemetry, import_runtime

_INSTALL = {
    "torch": "pip install 'mansard[export]'",
    "transformers": "pip install 'mansard[export]'",
    "onnxscript": "pip install 'mansard[export]', or use --exporter torchscript",
    "onnxruntime": "pip install 'mansard[export]', or skip the check with --no-check",
    "torchvision": "install the torchvision that belongs to this torch",
}

# Read by huggingface_hub and transformers when they are imported: whatever a
# configuration names, nothing is looked up or downloaded.
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")

_NMS = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_kept: list[Any] = []  # torch forgets an operator when the library that defined it is collected


def need(name: str) -> Any:
    """The library ``name``, imported; raises MansardError where it is missing or broken."""
    forbid_telemetry()  # PyTorch's exporters may import ONNX Runtime by themselves
    try:
        if name in {"torchvision", "transformers"}:
            _prepare_torchvision()  # transformers imports it too, where it is installed
        return import_runtime() if name == "onnxruntime" else import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise _broken(name, error) from error
        fix = _INSTALL[name]
        raise MansardError(f"this needs {name}, which is not installed", fix=fix) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> MansardError:
    said = f"{type(error).__name__}: {error}"
    return MansardError(
        f"{name} is installed but does not import ({said})",
        fix="install versions that belong together",
    )


def go_offline() -> None:
    """Forbid downloads in this process; before transformers is imported."""
    for variable in _OFFLINE:
        os.environ[variable] = "1"


def _prepare_torchvision() -> None:
    """Import torchvision, if it is there, even where its compiled operators do not load.

    A wheel built for CUDA beside a torch without it cannot load them, and then fails on
    registering the shapes of operators that it takes for granted. No classifier uses
    them: declared by name alone, they let the import succeed.
    """
    if "torchvision" in sys.modules or find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
    else:
        return
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    _declare_operators()
    import_module("torchvision")


def _declare_operators() -> None:
    torch = import_module("torch")
    library = torch.library.Library("torchvision", "FRAGMENT")
    _kept.append(library)
    for name in registered_operators():
        if not hasattr(torch.ops.torchvision, name):
            library.define(_NMS if name == "nms" else f"{name}(Tensor tensor) -> Tensor")


def registered_operators() -> list[str]:
    """The operators whose shapes torchvision registers without asking whether they loaded."""
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return []
    source = Path(spec.origin).parent / "_meta_registrations.py"
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    return re.findall(r'register_fake\("torchvision::(\w+)"\)', text)
