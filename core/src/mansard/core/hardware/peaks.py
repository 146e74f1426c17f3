"""What a GPU can do: its peaks and its caches, by CUDA's compute capability and by board.

CUDA cores: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"
(results a cycle and SM, a multiply-add being one result and two FLOP; packed fp16 and bf16
count both lanes), and the white papers of A100, GA102, AD102 and H100, whose FP16 and BF16
peaks agree. The fp64 of 87 is from the guide's chapter on compute capability 8.x, that of
103 from the data sheet of HGX B300 (1.3 TFLOP/s). Not published, so unknown: packed fp16 and
bf16 of 87, 101, 103, 110 and 121, fp64 of 101, 110 and 121.

Tensor cores: dense FLOP a cycle and SM with fp32 (int8: int32) accumulation: a GPU's dense
peak over its SMs and clock, from NVIDIA's white papers (V100, TU102, A100, GA102, AD102,
H100) and data sheets (AGX Xavier 11.3, AGX Orin 42.6 and Thor 258 TFLOP/s fp16; HGX B200 and
B300). 87: also the best that recorded boards show; its tf32 is half its fp16, as on A100.

fp4: 100 from the data sheet of HGX B200 (9 PFLOP/s dense of each GPU, twice its fp8), 110 from that
of Jetson Thor (2070 TFLOP/s with sparsity, twice the dense rate).

75, 86, 89 and 120: GeForce cards accumulate in fp32 at half the rate of the professional
cards of the same compute capability, which therefore does not tell: unknown, but for int8,
which both do alike. How far 103's int8 was cut is not published per SM.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from mansard.core.errors import UsageError
from mansard.core.hardware.module import MIB, Module
from mansard.core.hardware.table import MODULES
from mansard.core.units import parse_bytes

# The first-level data cache of one SM, which CUDA does not report.
#
# Source: CUDA C++ Programming Guide, chapters on the compute capabilities. Since 7.0 one
# memory serves as L1 and shared memory: what shared memory takes is missing in the cache.
# Before, shared memory lies apart, and this is the unified L1 and texture cache alone.
# 101 is CUDA 12.9's name for 110 (Thor).

_KIB = 1024
_L1_KIB = MappingProxyType(
    {
        53: 24,
        60: 24,
        61: 48,
        62: 24,
        70: 128,
        72: 128,
        75: 96,
        80: 192,
        86: 128,
        87: 192,
        89: 128,
        90: 256,
        100: 256,
        101: 256,
        103: 256,
        110: 256,
        120: 128,
        121: 128,
    }
)


# The L2's partitions, each of which caches for the SMs beside it. Source: NVIDIA A100 Tensor Core
# GPU Architecture, "A100 L2 Cache"; NVIDIA H100 Tensor Core GPU Architecture, whose L2 has the same
# structure; of 10.0 and 10.3 the two dies (NVIDIA Blackwell Architecture Technical Brief).
_L2_PARTITIONS = MappingProxyType({80: 2, 90: 2, 100: 2, 103: 2})


def l2_partitions(sm: int) -> int:
    """In how many partitions the L2 lies; 1 where nothing else is published."""
    return _L2_PARTITIONS.get(sm, 1)


def sm_l1_bytes(sm: int) -> int | None:
    """Bytes of one SM's unified data cache, shared memory included; None: not known."""
    kib = _L1_KIB.get(sm)
    return None if kib is None else kib * _KIB


# Not a Jetson: kept for models that were measured there.
# Source: NVIDIA A100 Tensor Core GPU Architecture, whitepaper: 40 MB.
_CARDS = {"a100": 40 * MIB}


def _last_level_caches() -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for module in MODULES.values():
        if module.l2_bytes is not None:
            sizes.setdefault(module.family, module.l2_bytes)
    return MappingProxyType(sizes | _CARDS)


BOARD_CACHES = _last_level_caches()


def cache_bytes(text: str) -> int:
    """The last-level cache of a board by name, or a size such as ``4MiB``; raises UsageError."""
    size_bytes = BOARD_CACHES.get(text.lower())
    if size_bytes is not None:
        return size_bytes
    try:
        return parse_bytes(text)
    except UsageError:
        raise UsageError(
            f"{text!r} is neither a board nor a size in bytes",
            fix=f"write 4MiB, or one of {', '.join(BOARD_CACHES)}",
        ) from None


Unit = Literal["fma", "tensor"]
Row = Mapping[str, int]


def _cores(*, fp64: int | None, fp32: int, fp16: int | None, bf16: int | None) -> Row:
    """FLOP a cycle of the CUDA cores from the guide's results: two for a multiply-add."""
    results = {"fp64": fp64, "fp32": fp32, "fp16": fp16, "bf16": bf16}
    return MappingProxyType({name: 2 * n for name, n in results.items() if n is not None})


_FMA = MappingProxyType(
    {
        53: _cores(fp64=4, fp32=128, fp16=256, bf16=None),
        60: _cores(fp64=32, fp32=64, fp16=128, bf16=None),
        61: _cores(fp64=4, fp32=128, fp16=2, bf16=None),
        62: _cores(fp64=4, fp32=128, fp16=256, bf16=None),
        70: _cores(fp64=32, fp32=64, fp16=128, bf16=None),
        72: _cores(fp64=32, fp32=64, fp16=128, bf16=None),
        75: _cores(fp64=2, fp32=64, fp16=128, bf16=None),
        80: _cores(fp64=32, fp32=64, fp16=256, bf16=128),
        86: _cores(fp64=2, fp32=128, fp16=128, bf16=128),
        87: _cores(fp64=2, fp32=128, fp16=None, bf16=None),
        89: _cores(fp64=2, fp32=128, fp16=128, bf16=128),
        90: _cores(fp64=64, fp32=128, fp16=256, bf16=256),
        100: _cores(fp64=64, fp32=128, fp16=256, bf16=256),
        101: _cores(fp64=None, fp32=128, fp16=None, bf16=None),
        103: _cores(fp64=2, fp32=128, fp16=None, bf16=None),
        110: _cores(fp64=None, fp32=128, fp16=None, bf16=None),
        120: _cores(fp64=2, fp32=128, fp16=128, bf16=128),
        121: _cores(fp64=None, fp32=128, fp16=None, bf16=None),
    }
)

_BLACKWELL = {"fp16": 8192, "bf16": 8192, "tf32": 4096, "fp8": 16384}
_THOR = {"fp16": 8192, "bf16": 8192, "int8": 16384, "fp8": 16384, "fp4": 32768}
_TENSOR: Mapping[int, Row] = MappingProxyType(
    {
        70: {"fp16": 1024},
        72: {"fp16": 1024, "int8": 2048},
        75: {"int8": 2048},
        80: {"fp64": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096},
        86: {"int8": 2048},
        87: {"tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096},
        89: {"int8": 2048},
        90: {"fp64": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "int8": 8192, "fp8": 8192},
        100: {**_BLACKWELL, "int8": 16384, "fp4": 32768},
        101: _THOR,  # CUDA 12.9's name for 110
        103: _BLACKWELL,
        110: _THOR,
        120: {"int8": 2048},
    }
)


def sm_flop_per_cycle(sm: int, precision: str, unit: Unit) -> int | None:
    """FLOP of one SM in a cycle; None where it is not there or not known.

    ``sm``: CUDA's compute capability, 87 is 8.7. ``fma``: on the CUDA cores, fp16 and bf16
    packed in pairs. ``tensor``: on the tensor cores, dense, accumulating in fp32 (int8: in
    int32, counted as operations).
    """
    table: Mapping[int, Row] = _TENSOR if unit == "tensor" else _FMA
    return table.get(sm, {}).get(precision)


# Best STREAM bandwidth over the memory's peak in modes that the memory limits (recorded
# on AGX Orin, Orin NX and Orin Nano: 0.90 to 0.93).
_MEMORY_EFFICIENCY = 0.92


def peak_flop_per_s(
    module: Module, *, n_sms: int, gpu_hz: float, precision: str = "fp32", unit: Unit = "fma"
) -> float | None:
    """FLOP/s of ``n_sms`` SMs at ``gpu_hz``; None where it is not known or not there.

    P = SMs × FLOP per cycle and SM × f (docs/understand/model.md), a multiply-add being 2 FLOP;
    tensor cores: dense, no sparsity. ``n_sms`` and ``gpu_hz`` are those of the moment: power modes
    switch SMs off and cap clocks.
    """
    flop_per_cycle = sm_flop_per_cycle(module.sm, precision, unit)
    return None if flop_per_cycle is None else n_sms * flop_per_cycle * gpu_hz


def memory_bytes_per_s(module: Module, memory_hz: float) -> float:
    """The memory's peak in bytes/s at the memory controller's clock ``memory_hz``.

    B = f × 2 × bus / 8: two transfers a cycle of the whole bus (docs/understand/model.md).
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
