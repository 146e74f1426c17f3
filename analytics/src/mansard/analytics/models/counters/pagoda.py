"""The FLOP of a launch by Pagoda's rule, to compare with ours.

Pagoda's ``src/tools/ert_method.py`` (github.com/dream-lab/pagoda, Apache-2.0) adds 2·ffma + fmul +
fadd and 2048 FLOP for each instruction of the tensor pipe, whatever its shape: right for the 16 × 8
× 8 of fp16 on Turing, half of the 16 × 8 × 16 of Ampere. Plain half instructions of the pipe count
as matrix ones. Its bytes are ``dram__bytes.sum``, which a Jetson does not have.
"""

from __future__ import annotations

from collections.abc import Mapping

RULE = "Pagoda's ert_method.py"
INSTRUCTION_FLOP = 2048
_FLOP = {"ffma": 2, "fmul": 1, "fadd": 1}
_INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"


def pagoda_flop(
    metrics: Mapping[str, float], instructions: float | None
) -> tuple[float | None, str]:
    """The FLOP by Pagoda's rule; or None, and why. ``instructions``: all of the tensor pipe."""
    names = {f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum": n for op, n in _FLOP.items()}
    tensor = metrics.get(_INSTRUCTIONS, instructions)
    if tensor is None or any(name not in metrics for name in names):
        return None, f"{RULE} needs {_INSTRUCTIONS} and the fp32 instructions, and one is missing"
    flop = sum(n * metrics[name] for name, n in names.items())
    return flop + INSTRUCTION_FLOP * tensor, ""
