"""docs/operators.md is what the registry says."""

from __future__ import annotations

from pathlib import Path

from mansard.estimator.formulas import FORMULAS
from mansard.estimator.operators import operators_table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/operators.md"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == operators_table()


def test_every_operator_has_a_row() -> None:
    rows = [line for line in operators_table().splitlines() if line.startswith("| ")]
    assert len(rows) == len(FORMULAS.operators()) + 1
    assert all(len(row.replace("\\|", "").split("|")) == 5 for row in rows)
