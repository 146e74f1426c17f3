"""ONNX Runtime: imported with its telemetry off, sessions on the provider that is asked for.

The only file of the product that imports it or makes a session. Newer versions (1.31 for one)
report their use to their makers, with a thread and files in the folders for temporary files,
unless a variable of the environment forbids it when they are imported.

Left alone, ONNX Runtime 1.23 to 1.32 falls back: where a provider raises, its Python code prints
"EP Error … Falling back" on standard output, which is data of ours, and takes the next one; where
the provider's library does not load, its C++ code logs why on standard error and leaves it out.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mansard.core.errors import MansardError, MeasurementError
from mansard.core.extras import install_command

FATAL_ONLY = 4  # log_severity_level: errors are raised, and Mansard prints them
_LIBRARIES = {"CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "tensorrt"}
# Parts of its messages.
_BUFFER = re.compile(r"Failed to allocate memory for requested buffer of size (\d+)")
_OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "out of memory", "failed to allocate memory")
_IN_NODE = re.compile(r"while running (\w+) node\. Name:'([^']*)' Status Message: (.*)")
_SOURCE = re.compile(r"^/\S+:\d+ .*?\) (?=\S)")  # its source file, line and function


_OF_JETSON = (
    "install onnxruntime-gpu from NVIDIA's index for Jetsons, in the version for this JetPack and "
    "Python (the wheel of other indexes runs on the CPU alone and hides it)"
)


def install_remedy(machine_kind: str, *, has_gpu: bool = False) -> str:
    """Which wheel to install on a machine of this kind, as ``MachineIdentity`` has it."""
    if machine_kind == "jetson":
        return f"{_OF_JETSON}, and {install_command('networks')}"
    if has_gpu:
        return f"install onnxruntime-gpu with CUDA and cuDNN, and {install_command('networks')}"
    return install_command("onnxruntime")


def forbid_telemetry() -> None:
    """Set the variable of the environment that switches telemetry off when it is imported."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def import_runtime(part: str = "") -> Any:
    """``onnxruntime``, or a module below it such as ``quantization``; raises ImportError."""
    forbid_telemetry()
    runtime = import_module("onnxruntime")
    # Its environment may exist already, where the caller's program imported it first.
    runtime.disable_telemetry_events()
    return import_module(f"onnxruntime.{part}") if part else runtime


def make_session(
    model: str | bytes, options: Any, providers: Sequence[str | tuple[str, dict[str, str]]]
) -> Any:
    """A session of a file or of its bytes that runs on the first provider.

    Raises what ONNX Runtime raises, and MeasurementError with the reason where it leaves the
    provider out. Nothing is printed.
    """
    onnxruntime = import_runtime()
    onnxruntime.set_default_logger_severity(FATAL_ONLY)  # for messages outside sessions
    first = providers[0] if isinstance(providers[0], str) else providers[0][0]
    try:
        session = onnxruntime.InferenceSession(
            model, options, providers=providers, enable_fallback=0
        )
    except Exception as error:
        reason = _why_not_loaded(first)
        if not reason:
            raise
        raise MeasurementError(f"{_line(error).rstrip('.')}: {reason}") from error
    if first not in session.get_providers():
        reason = _why_not_loaded(first) or "it gives no reason"
        raise MeasurementError(f"ONNX Runtime leaves {first} out: {reason}")
    return session


def _why_not_loaded(provider: str) -> str:
    """Why the provider's library does not load, in the loader's words; empty where it does.

    To be asked after a session was tried: the library reads at its loading what that prepares.
    """
    name = f"libonnxruntime_providers_{_LIBRARIES.get(provider, '')}.so"
    library = Path(import_runtime().__file__).parent / "capi" / name
    if not library.is_file():
        return ""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return str(error)
    return ""


@contextlib.contextmanager
def one_line(path: Path | None = None) -> Iterator[None]:
    """Turns what ONNX Runtime raises in its block into a MeasurementError."""
    try:
        yield
    except Exception as error:  # its classes have no base but this
        raise explained(error, path) from error


def explained(error: Exception, path: Path | None = None) -> MansardError:
    """What ONNX Runtime says in ``error``, in one line; of ``path`` the name alone is shown."""
    if isinstance(error, MansardError):
        return error
    if isinstance(error, MemoryError):
        return MeasurementError("too little memory")
    line = _line(error)
    return MeasurementError(line if path is None else line.replace(str(path), path.name))


def _line(error: Exception) -> str:
    """What went wrong, without ONNX Runtime's numbers and source files around it."""
    text = str(error).strip()
    buffer = _BUFFER.search(text)
    if buffer:
        return f"too little memory: it asks for {buffer[1]} bytes at once"
    if any(word in text.lower() for word in _OUT_OF_MEMORY):
        return "too little memory"
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    text = text.partition("\n")[0]
    in_node = _IN_NODE.search(text)
    if in_node:
        return f"{in_node[1]} {in_node[2]}: {_SOURCE.sub('', in_node[3])}"
    return _SOURCE.sub("", text)
