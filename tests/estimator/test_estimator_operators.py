"""docs/reference/operators.md is what the registry says, and it has all that ONNX lists."""

from __future__ import annotations

import re
from pathlib import Path

import onnx

from mansard.estimator.operators import REGISTRY
from mansard.estimator.operators.table import ONNX_DOMAINS, onnx_operators, operators_table
from mansard.estimator.shape_inference.control_flow import OPERATORS as CONTROL_FLOW
from mansard.estimator.shape_inference.sequences import RULES as SEQUENCES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/reference/operators.md"


def table_rows(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [line.replace("\\|", "").split("|") for line in lines[1:]]


def names(rows: list[list[str]]) -> list[str]:
    return [name.strip() for row in rows for name in row[1].split(",")]


def test_the_document_is_up_to_date() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    made_with = re.search(r"that onnx ([\d.]+) knows", document)
    assert made_with is not None
    table = operators_table(onnx_operators(), made_with[1])
    if made_with[1] == onnx.__version__:
        assert document == table
    else:  # another package lists other operators; ours are the same
        ours = {f"{domain}.{name}" if domain else name for domain, name in REGISTRY.operators()}
        assert ours <= set(names(table_rows(document)))


def test_every_operator_has_a_row() -> None:
    known = onnx_operators()
    rows = table_rows(operators_table(known, onnx.__version__))
    assert all(len(row) == 5 for row in rows)
    assert all(row[2].strip() for row in rows)
    keys = [*(REGISTRY.operators().keys() | known)]
    expected = sorted(f"{domain}.{name}" if domain else name for domain, name in keys)
    assert sorted(names(rows)) == expected


def test_every_operator_that_onnx_lists_has_a_formula_and_a_rule() -> None:
    listed = {key for key in onnx_operators() if key[0] in ONNX_DOMAINS}
    assert len(listed) >= 200
    assert listed - REGISTRY.operators().keys() == set()
    made_elsewhere = {("", name) for name in (*CONTROL_FLOW, *SEQUENCES)}
    without = {key for key in listed if REGISTRY.shape_rule(*key) is None} - made_elsewhere
    assert without == set()
