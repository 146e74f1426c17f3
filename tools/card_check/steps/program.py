"""A program metered as by ``mansard measure -- COMMAND``: the function beneath that command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mansard.sweeps.programs import ProgramRequest, run_program
from tools.card_check import Software
from tools.card_check.steps.load import METRIC
from tools.card_check.workfolder import WorkFolder

N_RUNS = 2
NAME = "fp32 FMA for some seconds"


def meter_program(work: WorkFolder, seconds: float, software: Software | None) -> dict[str, Any]:
    """Measure ``python tools/card_check load``, twice; raises what the command raises."""
    command = [sys.executable, str(Path(__file__).parents[1]), "load", "--seconds", f"{seconds:g}"]
    if software is not None:
        command += ["--software", software]
    request = ProgramRequest(
        command=tuple(command), name=NAME, metric=METRIC, n_runs=N_RUNS, runs=work.runs,
        profile="brief",
    )  # fmt: skip
    done = run_program(request)
    if done.failure is not None:
        raise done.failure
    return {"run_ids": done.run_ids}
