"""One step in its own process: opens the card, does it, keeps what it saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.core.errors import MansardError
from tools.card_check import Software
from tools.card_check.opening import open_card
from tools.card_check.steps.gpu_tests import run_tests
from tools.card_check.words import words_of
from tools.card_check.workfolder import WorkFolder

_LOAD_SHARE = 0.15  # of the step's time: two runs, each with its start
_LONGEST_LOAD_S = 10.0  # no longer where other steps left their time


def run_step(name: str, folder: Path, seconds: float, software: Software | None) -> int:
    """Do the step of a name; returns another code than 0 where it fails, after its reason."""
    work = WorkFolder(folder)
    if name == "tests":
        return run_tests(folder, is_software=software is not None)
    try:
        content = _do(name, work, seconds, software)
    except MansardError as error:
        work.write(name, {"why": words_of(error)})
        print(words_of(error))
        return 1
    if content is not None:
        work.write(name, content)
    return 0


def _do(name: str, work: WorkFolder, seconds: float, software: Software | None) -> Any:  # noqa: PLR0911 - one line for each step
    if name == "facts":
        from tools.card_check.steps.facts import read_facts

        return read_facts(software)
    if name == "program":
        from tools.card_check.steps.program import meter_program

        return meter_program(work, min(_LOAD_SHARE * seconds, _LONGEST_LOAD_S), software)
    card = open_card(software)
    if name == "rest":
        from tools.card_check.steps.kernels import measure_rest

        return measure_rest(card, work, seconds, lambda text: print(text, flush=True))
    if name == "kernels":
        from tools.card_check.steps.kernels import measure_kernels

        return measure_kernels(card, work, seconds, lambda text: print(text, flush=True))
    if name == "meter":
        from tools.card_check.steps.meter import check_meter

        return check_meter(card)
    if name == "peers":
        from tools.card_check.steps.peers import compare_with_torch

        return compare_with_torch(card)
    from tools.card_check.steps.counters import count_kernels, run_countings

    if name == "countings":
        return run_countings(card, work)
    return count_kernels(card, work, seconds, software)
