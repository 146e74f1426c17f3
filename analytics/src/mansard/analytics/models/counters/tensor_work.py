"""FLOP of the tensor cores, made of the metrics that an export happens to have.

Operations count as they are. Instructions count with the shape that the kernel's name has: cuBLAS
writes it as ``s16816gemm``, CUTLASS's wmma kernels as ``s161616``, cuDNN and TensorRT as
``tensor16x8x16``: M × N × K of one instruction, so 2·M·N·K FLOP of a warp. Cycles of the pipe count
with its peak.

On some chips the pipe also executes plain half instructions (HFMA2), constants moved by them among
others: ``…_op_hmma`` counts both, so matrix instructions are what is left without them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from mansard.analytics.models.counters.launch import ProfiledLaunch
from mansard.core.formats.ncu import TENSOR_CORE_WORK, TENSOR_PIPE, tensor_operations
from mansard.core.hardware import sm_flop_per_cycle
from mansard.core.precision import work_unit
from mansard.core.records import WorkCount

_WARP = 32
_PIPE = TENSOR_PIPE.partition(".")[0]
_INSTRUCTIONS = "sm__inst_executed_pipe_tensor_op_{}"
_SHARE = f"{_INSTRUCTIONS}.avg.pct_of_peak_sustained_active"
_HFMA = "sm__sass_thread_inst_executed_op_hfma_pred_on.sum"
_OF_OP = MappingProxyType({"imma": "int8", "dmma": "fp64"})  # hmma is of several
# Half instructions have a pipe of their own: gv100, gv11b and tu102 list ``pipe_fp16``, ga102 and
# ad102 ``pipe_fma_type_fp16``, and none of them ``…_op_hmma_type_hfma2``.
_HALF_ELSEWHERE = frozenset({70, 72, 75, 86, 89})
# On 87 the pipe is active half a cycle of an SM for a plain half instruction, two for HMMA.16816:
# recorded Gelu kernels of the DeepONet export have 0.50 cycles for each, its GEMMs 2.00.
_HALF_CYCLES = MappingProxyType({87: 0.5})
_MATRIX_CYCLES = 2.0
_PEAK_RATE = MappingProxyType({87: 2.0})  # HMMA an SM issues in a cycle at most; as recorded
# Percent of the pipe's cycles that half instructions may have where their share is printed as 0.00:
# half of 0.01 % of an issue each cycle or two, and as much of rounding of the pipe's own share.
_ROUNDED_SHARE = 0.02
_NOISE = 0.05  # of the instructions: what rounding of the shares leaves


_EITHER = "the tensor pipe was active, by matrix or by plain half instructions"


def tensor_work(
    launch: ProfiledLaunch,
    precision: str | None,
    sm: int | None,
    n_sms: int | None,
    cycles: float | None,
) -> tuple[list[WorkCount], str | None]:
    """FLOP of matrix instructions; and why they are not known. ``cycles``: of an SM, elapsed."""
    metrics = launch.metrics
    operand = operand_precision(launch.kernel, precision)
    active = _active_cycles(metrics, n_sms, cycles)
    if operations := tensor_operations(metrics):
        return _operations(metrics, operations, operand, active)
    if active == 0:
        return [], None
    counts = _instructions(launch, operand, sm, n_sms)
    by_operation: list[WorkCount] = []
    for op, n in counts.items():
        if n:
            operand_type = _OF_OP.get(op, None if operand in _OF_OP.values() else operand)
            work, why = _matrix_work(launch, op, n, operand_type, sm, active)
            if why:
                return by_operation, why
            by_operation += [work] if work else []
    missing = [op for op, n in counts.items() if n is None]
    if not missing:
        return by_operation, None
    alone, why = _kind_alone(launch, counts, operand, sm, active)
    by_cycles = _by_cycles(alone, sm, active)
    return ([by_cycles], None) if by_cycles else (by_operation, why)


def executed_instructions(
    launch: ProfiledLaunch, precision: str | None, sm: int | None, n_sms: int | None
) -> float | None:
    """Warp instructions of the tensor pipe, of all kinds; None where one was not counted."""
    if launch.metrics.get(TENSOR_PIPE) == 0:
        return 0.0
    counts = _instructions(launch, operand_precision(launch.kernel, precision), sm, n_sms)
    known = [n for n in counts.values() if n is not None]
    return sum(known) if len(known) == len(counts) else None


def _kind_alone(
    launch: ProfiledLaunch,
    counts: Mapping[str, float | None],
    operand: str | None,
    sm: int | None,
    active: float | None,
) -> tuple[str | None, str]:
    """The precision whose are all of the pipe's cycles; None, and why nothing tells it."""
    missing = [op for op, n in counts.items() if n is None]
    why = f"matrix instructions were not counted: {', '.join(missing)}"
    if len(missing) == len(counts):
        is_active = TENSOR_PIPE in launch.metrics
        why = _EITHER if is_active else "the tensor pipe was not counted"
        return (operand if instruction_flop(launch.kernel) else None), why
    if len(missing) > 1 or any(counts.values()):
        return None, why
    if _only_matrices(launch, missing[0], operand, sm):
        return _OF_OP.get(missing[0], operand), why
    return None, _EITHER if active else why


def _only_matrices(launch: ProfiledLaunch, op: str, operand: str | None, sm: int | None) -> bool:
    """Whether the pipe ran for matrix instructions of ``op`` alone, which were not counted.

    HMMA: a copy kernel's plain half instructions keep the pipe busy too, so its name has to say
    that it multiplies matrices. IMMA and DMMA: no half instruction may hide in a share of HMMA
    that was rounded to 0.
    """
    metrics = launch.metrics
    if op == "hmma":
        return sm in _HALF_ELSEWHERE or instruction_flop(launch.kernel) is not None
    if metrics.get(_SHARE.format(op)):
        return True
    is_counted = f"{_INSTRUCTIONS.format('hmma')}.sum" in metrics
    is_above_rounding = metrics.get(TENSOR_PIPE, 0.0) > _ROUNDED_SHARE
    return operand == _OF_OP[op] and (is_counted or is_above_rounding)


def _operations(
    metrics: Mapping[str, float], names: tuple[str, ...], operand: str | None, active: float | None
) -> tuple[list[WorkCount], str | None]:
    counts = [
        WorkCount(
            unit="tensor core", precision=TENSOR_CORE_WORK[name], flop=metrics[name], formula=name
        )
        for name in names
        if metrics[name]
    ]
    is_counted = operand is None or operand in {TENSOR_CORE_WORK[name] for name in names}
    if counts or is_counted or active == 0:
        return counts, None
    return [], f"operations of tensor cores in {operand} were not counted"


def _by_cycles(precision: str | None, sm: int | None, active: float | None) -> WorkCount | None:
    """The pipe's cycles × the work of one; None where either is not known."""
    peak = sm_flop_per_cycle(sm, precision, "tensor") if sm and precision else None
    if peak is None or precision is None or not active:
        return None
    return WorkCount(
        unit="tensor core",
        precision=precision,
        flop=active * peak,
        formula=f"pipe cycles of {_PIPE} × SMs × {peak} {work_unit(precision)}",
    )


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
    launch: ProfiledLaunch, operand: str | None, sm: int | None, n_sms: int | None
) -> dict[str, float | None]:
    """Warp instructions by kind; None where they were not counted."""
    metrics = launch.metrics
    counts = {op: _counted(metrics, op, sm, n_sms) for op in ("hmma", "imma", "dmma")}
    total = metrics.get("sm__inst_executed_pipe_tensor.sum")
    if total is not None:
        # What is left of it is of the kind that the kernel's name says. An int8 network's copies
        # have plain half instructions in it, which are taken off those of HMMA.
        is_named = kernel_precision(launch.kernel) == operand or instruction_flop(launch.kernel)
        usual = next(
            (op for op, result in _OF_OP.items() if result == operand and is_named), "hmma"
        )
        missing = [op for op, n in counts.items() if n is None]
        rest = max(total - sum(n or 0.0 for n in counts.values()), 0.0)
        counts |= dict.fromkeys(missing, 0.0)
        if missing:
            counts[usual if usual in missing else missing[0]] = rest
    if counts["dmma"] is None and operand != "fp64":
        del counts["dmma"]  # no network has any
    if sm == 70:
        counts.pop("imma")  # GV100 has none
    return counts


def _counted(
    metrics: Mapping[str, float], op: str, sm: int | None, n_sms: int | None
) -> float | None:
    executed, share = metrics.get(f"{_INSTRUCTIONS.format(op)}.sum"), metrics.get(_SHARE.format(op))
    if executed is not None or share is None:
        return executed
    active, rate = metrics.get("sm__cycles_active.avg"), _PEAK_RATE.get(sm or 0)
    if share == 0:
        return 0.0
    if active is not None and rate and n_sms and op == "hmma":
        return share / 100 * active * n_sms * rate
    return None


def _matrix_work(
    launch: ProfiledLaunch,
    op: str,
    n: float,
    precision: str | None,
    sm: int | None,
    active: float | None,
) -> tuple[WorkCount | None, str | None]:
    """The work of ``n`` instructions of the tensor pipe, and why they are not known."""
    flop = instruction_flop(launch.kernel)
    if flop is None and sm and precision:
        flop = usual_instruction_flop(sm, precision)
    formula = _INSTRUCTIONS.format(op)
    if op == "hmma" and sm not in _HALF_ELSEWHERE:
        left, formula = _without_half(launch, n, sm, active, flop, precision)
        if left is None:
            return None, "matrix and plain half instructions of the tensor pipe cannot be told"
        n = left
    if not n:
        return None, None
    if precision is None:
        return None, "the tensor pipe ran, and the precision is not said"
    if flop is None and (work := _by_cycles(precision, sm, active)) is not None:
        return work, None
    if flop is None:
        return None, "the shape of its matrix instructions is not said; say the compute capability"
    return WorkCount(
        unit="tensor core",
        precision=precision,
        flop=n * flop,
        formula=f"{formula} × {flop} {work_unit(precision)}",
    ), None


def _without_half(
    launch: ProfiledLaunch,
    n: float,
    sm: int | None,
    active: float | None,
    flop: int | None,
    precision: str | None,
) -> tuple[float | None, str]:
    """Matrix instructions among ``n`` of ``…_op_hmma``, and the formula; None: not known."""
    metrics, formula = launch.metrics, _INSTRUCTIONS.format("hmma")
    half = metrics.get(f"{formula}_type_hfma2.sum")
    if half is not None:
        return max(n - half, 0.0), f"({formula} − …_type_hfma2)"
    if (plain := _HALF_CYCLES.get(sm or 0)) and active:
        peak = sm_flop_per_cycle(sm, precision, "tensor") if sm and precision else None
        cycles_each = flop / peak if flop and peak else _MATRIX_CYCLES
        matrix = (active - plain * n) / (cycles_each - plain)
        return (matrix if matrix > _NOISE * n else 0.0), f"{formula} by its pipe cycles"
    # A plain instruction has 1 to 32 threads. A kernel of matrices has them at its end, and whole.
    threads = metrics.get(_HFMA)
    if threads is None:
        return (n if instruction_flop(launch.kernel) else None), formula
    most, least = max(n - threads / _WARP, 0.0), max(n - threads, 0.0)
    if most <= _NOISE * n:  # some lanes are off
        return 0.0, formula
    is_known = most - least <= _NOISE * n or instruction_flop(launch.kernel)
    return (most if is_known else None), f"({formula} − hfma / 32)"


# What a kernel's name says. An ``s161616`` of wmma is two instructions of 16 × 8 × 16 since Ampere;
# a step of Volta's 8 × 8 × 4, of four quads of threads, is half as long where sums are fp32 (s884:
# Raihan et al., ISPASS 2019: 16 × 16 × 16 are 16 instructions, and 8 with fp16 sums).
_FLOP = MappingProxyType(
    {
        "884": 2 * 8 * 8 * 4,
        "8816": 2 * 8 * 8 * 16,
        "1684": 2 * 16 * 8 * 4,
        "1688": 2 * 16 * 8 * 8,
        "16816": 2 * 16 * 8 * 16,
        "161616": 2 * 16 * 8 * 16,
        "16832": 2 * 16 * 8 * 32,
        "16864": 2 * 16 * 8 * 64,
    }
)
_JOINED = re.compile(
    r"(?<![0-9A-Za-z])([a-z])(16816|161616|16832|16864|1688|1684|8816|884)(?![0-9])"
)
_SPELLED = re.compile(r"tensor(?!8x8x4)(\d{1,3})x(\d{1,3})x(\d{1,3})")
_PRECISIONS = (
    (re.compile(r"bf16|bfloat", re.I), "bf16"),
    (re.compile(r"tf32", re.I), "tf32"),
    (re.compile(r"e4m3|e5m2|fp8", re.I), "fp8"),
    (re.compile(r"int8|imma|(?<![a-z0-9])[is]8(?![0-9])|(?<![a-z])i8i8", re.I), "int8"),
    (re.compile(r"f16|fp16|half|h16|[hs]884|h1688", re.I), "fp16"),
)


def instruction_flop(kernel: str) -> int | None:
    """FLOP of one matrix instruction of a warp; None where the name does not say its shape."""
    if match := _JOINED.search(kernel):
        return _FLOP[match[2]] * (2 if match[1] == "h" and match[2] == "884" else 1)
    if match := _SPELLED.search(kernel):
        m, n, k = map(int, match.groups())
        return 2 * m * n * k or None
    return None


def usual_instruction_flop(sm: int, precision: str) -> int | None:
    """The same of the largest instruction of a chip, which libraries use; None: not known.

    PTX ISA, ``mma.sync``: m16n8k16 of fp16 and bf16, k8 of tf32 and k32 of int8 since Ampere (80);
    m16n8k8 of Turing (75).
    """
    if 80 <= sm < 90:
        return {"fp16": 4096, "bf16": 4096, "tf32": 2048, "int8": 8192}.get(precision)
    return {"fp16": 2048, "int8": 2048}.get(precision) if sm == 75 else None


def kernel_precision(kernel: str) -> str | None:
    """The precision that a name says; None where it says none."""
    return next((name for pattern, name in _PRECISIONS if pattern.search(kernel)), None)


def operand_precision(kernel: str, network: str | None) -> str | None:
    """The precision of matrix operands: what the name says, else that of the network."""
    said = kernel_precision(kernel)
    return said or ("tf32" if network == "fp32" else network)
