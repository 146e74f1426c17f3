"""What a module can reach at most, at given clocks and with the SMs that are on."""

from __future__ import annotations

from mansard.core.hardware.module import Module
from mansard.core.hardware.sm_peaks import Unit, sm_flop_per_cycle

# Best STREAM bandwidth over the memory's peak in modes that the memory limits (recorded
# on AGX Orin, Orin NX and Orin Nano: 0.90 to 0.93).
_MEMORY_EFFICIENCY = 0.92


def peak_flop_per_s(
    module: Module, *, n_sms: int, gpu_hz: float, precision: str = "fp32", unit: Unit = "fma"
) -> float | None:
    """FLOP/s of ``n_sms`` SMs at ``gpu_hz``; None where it is not known or not there.

    P = SMs × FLOP per cycle and SM × f (docs/model.md), a multiply-add being 2 FLOP; tensor
    cores: dense, no sparsity. ``n_sms`` and ``gpu_hz`` are those of the moment: power modes
    switch SMs off and cap clocks.
    """
    flop_per_cycle = sm_flop_per_cycle(module.sm, precision, unit)
    return None if flop_per_cycle is None else n_sms * flop_per_cycle * gpu_hz


def memory_bytes_per_s(module: Module, memory_hz: float) -> float:
    """The memory's peak in bytes/s at the memory controller's clock ``memory_hz``.

    B = f × 2 × bus / 8: two transfers a cycle of the whole bus (docs/model.md).
    """
    return memory_hz * 2 * module.memory_bus_bits / 8


def memory_roof_bytes_per_s(module: Module, *, memory_hz: float, gpu_hz: float) -> float | None:
    """Modelled: the bandwidth that the GPU reaches in a mode, in bytes/s; ± 5 %.

    min(0.92 × memory peak, port × f_gpu): at low clocks the GPU's port to memory limits it,
    whatever SMs are switched off. Fitted on recorded STREAM results of Orin boards in eleven
    modes; None for modules whose port was not recorded.
    """
    if module.memory_port_bytes is None:
        return None
    peak = _MEMORY_EFFICIENCY * memory_bytes_per_s(module, memory_hz)
    return min(peak, module.memory_port_bytes * gpu_hz)


def active_sms(module: Module, gating_mask: int | None) -> int | None:
    """SMs that are on under a TPC_PG_MASK; None where the mask's meaning is not known.

    A set bit switches a TPC off: SMs = 2 × (8 − set bits) on AGX Orin, confirmed by the
    core counts that CUDA reports in its four modes (768, 1024, 2048, 2048). A module whose
    TPCs are partly off for good never has more than its own.
    """
    if module.n_tpcs is None or module.chip_tpcs is None:
        return None if gating_mask else module.n_sms
    if gating_mask is None or gating_mask < 0:
        return None
    n_off = bin(gating_mask & ((1 << module.chip_tpcs) - 1)).count("1")
    n_tpcs = min(module.n_tpcs, module.chip_tpcs - n_off)
    return n_tpcs * (module.n_sms // module.n_tpcs)
