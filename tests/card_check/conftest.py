"""Checks of cards in software, measured once in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest

from tools.card_check import Software
from tools.card_check.judging import judge
from tools.card_check.software import software_card
from tools.card_check.steps.kernels import measure_kernels
from tools.card_check.steps.meter import check_meter
from tools.card_check.table import Line
from tools.card_check.workfolder import WorkFolder

LONG_S = 600.0  # more than the plans take in virtual time


@dataclass(frozen=True)
class Checked:
    """The results of one physics, and the lines made of them."""

    work: WorkFolder
    lines: tuple[Line, ...]

    def line(self, name: str) -> Line:
        """The line of a name."""
        return next(line for line in self.lines if line.name == name)

    @property
    def failed(self) -> dict[str, Line]:
        """The lines that fail, by name."""
        return {line.name: line for line in self.lines if line.verdict == "FAIL"}


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Software], Checked]:
    """Kernels and meter of a physics."""

    @cache
    def check(name: Software) -> Checked:
        work = WorkFolder(tmp_path_factory.mktemp(name))
        work.runs.mkdir()
        card = software_card(name)
        work.write("kernels", measure_kernels(card, work, LONG_S, lambda _text: None))
        work.write("meter", check_meter(card))
        return Checked(work, tuple(judge(work)))

    return check
