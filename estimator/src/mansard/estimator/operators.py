"""The table of all operators and their formulas, made from the registry.

python -m mansard.estimator.operators > docs/operators.md
"""

from __future__ import annotations

import inspect
import sys

from mansard.estimator.cost import Formula
from mansard.estimator.formulas import FORMULAS

_HEAD = """# Operators

Made from the registry by `python -m mansard.estimator.operators`; do not edit. What the
counts mean: [scoring.md](scoring.md). An operation is one addition, multiplication,
division, comparison or rounding; a function is one evaluation of exp, log, sqrt, erf and
the like. Every operator reads its distinct inputs once and writes its outputs once,
except where the last column says otherwise.

| operator | work | traffic |
|---|---|---|
"""


def operators_table() -> str:
    """The Markdown document docs/operators.md."""
    rows = [
        f"| {_name(domain, op_type)} | {_work(formula)} | {_traffic(op_type, formula)} |\n"
        for (domain, op_type), formula in FORMULAS.operators().items()
    ]
    return _HEAD + "".join(rows)


def _name(domain: str, op_type: str) -> str:
    return f"{domain}.{op_type}" if domain else op_type


def _work(formula: Formula) -> str:
    text = inspect.cleandoc(formula.function.__doc__ or "")
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _traffic(op_type: str, formula: Formula) -> str:
    from mansard.estimator.formulas.movement import PICKING

    if formula.is_view:
        return "none: a view"
    return "of the table only what is picked" if op_type in PICKING else ""


if __name__ == "__main__":
    sys.stdout.write(operators_table())
