"""What the machine is: card, driver, libraries, limits, as far as they answer."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from mansard.core.errors import MansardError
from mansard.core.version import VERSION
from tools.card_check import Software
from tools.card_check.opening import open_card
from tools.card_check.words import words_of

_PACKAGES = (
    "numpy", "numba", "numba-cuda", "cupy-cuda12x", "cupy-cuda13x", "cuda-pathfinder",
    "nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-ml-py", "msgspec", "onnx", "onnxruntime", "torch",
)  # fmt: skip


def read_facts(software: Software | None) -> dict[str, Any]:
    """The facts of the machine; what does not answer is a reason."""
    import msgspec

    facts: dict[str, Any] = {
        "mansard": VERSION,
        "python": platform.python_version(),
        "system": platform.platform(),
        "libraries": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
    }
    if software is None:
        facts["nvml"] = _read_nvml()
    try:
        card = open_card(software)
    except MansardError as error:
        return facts | {"card": None, "why": words_of(error)}
    return facts | {
        "card": msgspec.to_builtins(card.gpu),
        "versions": card.versions,
        "notes": card.notes,
        "meters_missing": card.meters.missing,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# What is asked of NVML, by the function that reads it.
_ASKED = (
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetName",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetMigMode",
)


def _read_nvml() -> dict[str, Any]:
    """The driver, and what the first card answers; nvidia-smi is not needed."""
    from mansard.device.cards import as_text, card_handle, load_nvml, nvml_errors

    try:
        nvml = load_nvml()
        card = card_handle(nvml, 0, None)
    except MansardError as error:
        return {"why": words_of(error)}
    answers: dict[str, Any] = {}
    # An older nvidia-ml-py lacks some functions.
    refusals: tuple[type[Exception], ...] = (*nvml_errors(nvml), AttributeError)
    for name in _ASKED:
        try:
            answer = getattr(nvml, name)(*(() if name.startswith("nvmlSystem") else (card,)))
        except refusals as error:
            answer = words_of(error)
        is_text = isinstance(answer, str | bytes)
        answers[name.removeprefix("nvml")] = as_text(answer) if is_text else answer
    return answers
