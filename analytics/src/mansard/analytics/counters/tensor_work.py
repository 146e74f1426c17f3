"""FLOP of the tensor cores, made of the metrics that an export happens to have.

The tensor pipe also executes plain half instructions (HFMA2), constants moved by them among
others: ``…_op_hmma`` counts both, so matrix instructions are what is left without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mansard.analytics.counters.launch import Launch
from mansard.analytics.counters.tensor_kernels import (
    instruction_flop,
    operand_precision,
    usual_instruction_flop,
)
from mansard.core.hardware import sm_flop_per_cycle
from mansard.core.ncu_metrics import TENSOR_CORE_WORK, TENSOR_PIPE
from mansard.core.records import WorkCount

_WARP = 32


def tensor_work(
    launch: Launch, precision: str | None, sm: int | None, n_sms: int | None, cycles: float | None
) -> tuple[list[WorkCount], str | None]:
    """FLOP of matrix instructions; and why they are not known. ``cycles``: of an SM, elapsed."""
    metrics = launch.metrics
    counted = [_operations(name, metrics[name]) for name in TENSOR_CORE_WORK if name in metrics]
    if counted:
        return [work for work in counted if work.flop], None
    active = _active_cycles(metrics, n_sms, cycles)
    found: list[WorkCount] = []
    known, ran = False, []
    for op in ("hmma", "imma", "dmma"):
        n = _instructions(metrics, op, sm, n_sms)
        own = _OF_OP.get(op) or operand_precision(launch.kernel, precision)
        known = known or n is not None
        if n is None and metrics.get(_SHARE.format(op)):
            ran.append(own)
        elif n:
            work, why = _matrix_work(launch, op, n, own, sm, active)
            if why:
                return found, why
            found += [work] if work else []
    if ran:  # the pipe's cycles are theirs, where no others ran
        work = None if found or len(ran) > 1 else _by_cycles(ran[0], sm, active)
        return ([work], None) if work else (found, "matrix instructions ran and were not counted")
    return (found, None) if known or active == 0 else _of_cycles(launch, precision, sm, active)


def _operations(name: str, count: float) -> WorkCount:
    precision, flop = TENSOR_CORE_WORK[name]
    return WorkCount(unit="tensor core", precision=precision, flop=count * flop, formula=name)


def _of_cycles(
    launch: Launch, precision: str | None, sm: int | None, active: float | None
) -> tuple[list[WorkCount], str | None]:
    """What the pipe's cycles alone say: of matrices only where the kernel's name says so."""
    if active is None and TENSOR_PIPE not in launch.metrics:
        return [], "the tensor pipe was not counted"
    work = _by_cycles(operand_precision(launch.kernel, precision), sm, active)
    if instruction_flop(launch.kernel) is None or work is None:
        return [], "the tensor pipe was active, by matrix or by plain half instructions"
    return [work], None


def _by_cycles(precision: str | None, sm: int | None, active: float | None) -> WorkCount | None:
    """The pipe's cycles × the FLOP of one; None where either is not known."""
    peak = sm_flop_per_cycle(sm, precision, "tensor") if sm and precision else None
    if peak is None or precision is None or not active:
        return None
    return WorkCount(
        unit="tensor core",
        precision=precision,
        flop=active * peak,
        formula=f"pipe cycles of {_PIPE} × SMs × {peak} FLOP",
    )


_OF_OP = MappingProxyType({"imma": "int8", "dmma": "fp64"})  # hmma is of several
_SHARE = "sm__inst_executed_pipe_tensor_op_{}.avg.pct_of_peak_sustained_active"


_PIPE = TENSOR_PIPE.partition(".")[0]
_HMMA = "sm__inst_executed_pipe_tensor_op_hmma"
# On 87 the pipe is active half a cycle of an SM for a plain half instruction, two for HMMA.16816:
# recorded Gelu kernels of the DeepONet export have 0.50 cycles for each, its GEMMs 2.00.
_HALF_CYCLES = MappingProxyType({87: 0.5})
_PEAK_RATE = MappingProxyType({87: 2.0})  # HMMA an SM issues in a cycle at most; as recorded


def _active_cycles(
    metrics: Mapping[str, float], n_sms: int | None, cycles: float | None
) -> float | None:
    """Cycles in which tensor pipes were active, over all SMs."""
    share = metrics.get(TENSOR_PIPE)
    if share == 0:
        return 0.0
    if share is None or n_sms is None or cycles is None:
        return None
    return share / 100 * cycles * n_sms


def _instructions(
    metrics: Mapping[str, float], op: str, sm: int | None, n_sms: int | None
) -> float | None:
    """Warp instructions of ``op``; of hmma without those that are known to be plain half ones."""
    name = f"sm__inst_executed_pipe_tensor_op_{op}"
    own = metrics.get(f"{name}.sum")
    if own is None:
        share = metrics.get(_SHARE.format(op))
        active, rate = metrics.get("sm__cycles_active.avg"), _PEAK_RATE.get(sm or 0)
        if share == 0:
            own = 0.0
        elif share is not None and active is not None and rate and n_sms and op == "hmma":
            own = share / 100 * active * n_sms * rate
    if own is None and op == "hmma":
        own = metrics.get("sm__inst_executed_pipe_tensor.sum")
    return own


def _matrix_work(
    launch: Launch, op: str, n: float, precision: str | None, sm: int | None, active: float | None
) -> tuple[WorkCount | None, str | None]:
    """The FLOP of ``n`` instructions of the tensor pipe, and why they are not known."""
    metrics = launch.metrics
    if precision is None:
        return None, "the tensor pipe ran, and the precision is not said"
    flop = instruction_flop(launch.kernel) or (
        usual_instruction_flop(sm, precision) if sm else None
    )
    peak = sm_flop_per_cycle(sm, precision, "tensor") if sm else None
    formula = f"sm__inst_executed_pipe_tensor_op_{op}"
    half = metrics.get(f"{_HMMA}_type_hfma2.sum")
    if op == "hmma" and half is not None:
        n, formula = max(n - half, 0.0), f"({formula} − …_type_hfma2)"
    elif op == "hmma" and (plain := _HALF_CYCLES.get(sm or 0)) and active and flop and peak:
        each = flop / peak
        matrix = (active - plain * n) / (each - plain)
        n, formula = (matrix if matrix > _NOISE * n else 0.0), f"{formula} by its pipe cycles"
    elif op == "hmma" and (threads := metrics.get(_HFMA)) is not None:
        matrix = n - threads / _WARP
        n, formula = (matrix if matrix > n / 2 else 0.0), f"({formula} − hfma / 32)"
    if not n:
        return None, None
    if flop is None and (work := _by_cycles(precision, sm, active)) is not None:
        return work, None
    if flop is None:
        return None, "the shape of its matrix instructions is not said; say the compute capability"
    return WorkCount(
        unit="tensor core", precision=precision, flop=n * flop, formula=f"{formula} × {flop} FLOP"
    ), None


_NOISE = 0.05  # of the instructions: what rounding of the shares leaves
_HFMA = "sm__sass_thread_inst_executed_op_hfma_pred_on.sum"
