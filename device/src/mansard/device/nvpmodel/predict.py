"""What a mode can reach at most, by the table of modules: modelled, not measured."""

from __future__ import annotations

from mansard.core.hardware import (
    Module,
    memory_bytes_per_s,
    memory_roof_bytes_per_s,
    peak_flop_per_s,
)
from mansard.core.records import PowerMode
from mansard.core.records.base import Record
from mansard.device.nvpmodel.caps import UNCAPPED


class Prediction(Record, frozen=True, kw_only=True):
    """Peaks of a mode at its caps, with its multiprocessors that are on.

    ``memory_bytes_per_s`` is what the memory's pins carry, ``memory_roof_bytes_per_s`` what
    the GPU reaches of it in the mode (``core.hardware.peaks`` has the formulas).
    """

    cuda_cores: int | None
    fp32_flop_per_s: float | None
    fp16_tensor_flop_per_s: float | None
    memory_bytes_per_s: float | None
    memory_roof_bytes_per_s: float | None


def predict(mode: PowerMode, chip: Module | None, module: Module | None) -> Prediction:
    """The peaks of ``mode``, whose clocks are resolved where they can be.

    ``chip``: any module of the same chip, enough for what a multiprocessor does in a cycle;
    ``module``: the very one, needed for its memory. Either may be unknown.
    """
    unknown: dict[str, str] = {}
    gpu_hz, memory_hz, n_sms = mode.gpu_hz, mode.memory_hz, mode.n_sms
    cores = _cores_per_sm(chip)
    peaks: dict[str, float | None] = dict.fromkeys(_PEAKS)
    if chip is not None and n_sms is not None and gpu_hz is not None:
        peaks["fp32_flop_per_s"] = peak_flop_per_s(chip, n_sms=n_sms, gpu_hz=gpu_hz)
        peaks["fp16_tensor_flop_per_s"] = peak_flop_per_s(
            chip, n_sms=n_sms, gpu_hz=gpu_hz, precision="fp16", unit="tensor"
        )
    if module is not None and memory_hz is not None:
        peaks["memory_bytes_per_s"] = memory_bytes_per_s(module, memory_hz)
        if gpu_hz is not None:
            peaks["memory_roof_bytes_per_s"] = memory_roof_bytes_per_s(
                module, memory_hz=memory_hz, gpu_hz=gpu_hz
            )
    for field, value in peaks.items():
        if value is None:
            unknown[field] = _reason(field, mode, chip, module)
    n_cores = None if cores is None or n_sms is None else n_sms * cores
    if n_cores is None:
        unknown["cuda_cores"] = mode.unknown.get("n_sms", _NO_CHIP)
    return Prediction(cuda_cores=n_cores, unknown=unknown, **peaks)


_NEEDED = {"gpu_hz": "GPU's clock", "memory_hz": "memory's clock", "n_sms": "number of SMs"}
_NO_CHIP = "the chip is not in the table of modules"
_PEAKS = (
    "fp32_flop_per_s",
    "fp16_tensor_flop_per_s",
    "memory_bytes_per_s",
    "memory_roof_bytes_per_s",
)


def _cores_per_sm(chip: Module | None) -> int | None:
    # One multiply-add, 2 FLOP, a core and cycle.
    peak = peak_flop_per_s(chip, n_sms=1, gpu_hz=1.0) if chip is not None else None
    return None if peak is None else round(peak / 2)


def _reason(field: str, mode: PowerMode, chip: Module | None, module: Module | None) -> str:
    """Why a peak is unknown: the first thing that it needs and that is missing."""
    is_memory = field.startswith("memory")
    if is_memory and module is None:
        return "the module is not known, and with it the width of its memory"
    if chip is None:
        return _NO_CHIP
    needed = {"fp32_flop_per_s": ("n_sms", "gpu_hz"), "fp16_tensor_flop_per_s": ("n_sms", "gpu_hz")}
    for name in needed.get(field, ("memory_hz", "gpu_hz")):
        if getattr(mode, name) is None:
            why = mode.unknown[name]
            return f"the {_NEEDED[name]} is {why}" if why == UNCAPPED else why
    if field == "memory_roof_bytes_per_s":
        return "the GPU's port to memory was not recorded for this module"
    return "this chip has no such unit" if "tensor" in field else "not known for this chip"
