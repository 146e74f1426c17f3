"""The table of all operators, made from the registry and from ONNX's own list.

python -m mansard.estimator.operators.table > docs/reference/operators.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection

from mansard.estimator.operators import REGISTRY, Operator
from mansard.estimator.operators.registry import BytesFunction

Key = tuple[str, str]

_HEAD = """# Operators

Made from the registry by `python -m mansard.estimator.operators.table`; do not edit.
[Scoring](../understand/scoring.md) explains the counts.

- An operation is one addition, multiplication, division, comparison or rounding. A function is one
  evaluation of exp, log, sqrt, erf or a random number. A multiply-add counts 2.
- A number without a unit is operations for each output element.
- Moving, converting, indexing and choosing elements counts 0, and so do constants.
- Operators that ONNX defines by a function count as that function, without factors of 1.
- An operator reads each distinct input once and writes each output once, unless the last column
  says otherwise.
- Every version of each operator that onnx {onnx} knows is covered.

## Adding an operator, in four steps

1. Choose the file of its family in `estimator/src/mansard/estimator/operators/`; operators outside
   ONNX's domains are in `contrib/` and `ml/`.
2. Write its shape rule, then its cost with the arithmetic in the docstring, under the decorator
   `@operator("MyOperator", shape=my_shape)`. `not_weights` names inputs that are not weights;
   `reads` and `writes` count bytes of partial reads and writes. For a common cost,
   `@shape_of("MyOperator", cost=move)` above the shape rule suffices.
3. Test the smallest node: the arithmetic in a comment, then the literal
   (`tests/estimator/*_cases.py`).
4. Write this page again and run `make check`.

`tests/estimator/test_adding_an_operator.py` takes these steps.

## All operators

Operators with the same work and traffic share a row.

| operators | work | traffic |
|---|---|---|
"""

# Domains whose operators ONNX lists, the standard one as the empty name.
ONNX_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def operators_table(listed: Collection[Key], onnx_version: str) -> str:
    """docs/reference/operators.md as Markdown: all operators of every domain, by their cost."""
    known = REGISTRY.operators()
    rows: dict[tuple[str, str], list[str]] = {}
    for key in sorted(known.keys() | set(listed)):
        cost = _work(known.get(key)), _traffic(known.get(key))
        rows.setdefault(cost, []).append(_name(*key))
    lines = (
        f"| {', '.join(names)} | {work} | {traffic} |\n" for (work, traffic), names in rows.items()
    )
    return _HEAD.replace("{onnx}", onnx_version) + "".join(lines)


def onnx_operators() -> set[Key]:
    """Domain and name of each operator that the installed onnx package lists."""
    from onnx import defs

    return {(schema.domain, schema.name) for schema in defs.get_all_schemas_with_history()}


def _name(domain: str, op_type: str) -> str:
    return f"{domain}.{op_type}" if domain else op_type


def _work(known: Operator | None) -> str:
    if known is None:
        return "Refused: no formula."
    return _line(known.cost.__doc__)


def _traffic(known: Operator | None) -> str:
    if known is None:
        return ""
    if known.is_view:
        return "none (view)"
    parts = [_moves("reads", known.reads), _moves("writes", known.writes)]
    return "; ".join(filter(None, parts))


def _moves(verb: str, function: BytesFunction | None) -> str:
    if function is None:
        return ""
    text = _line(function.__doc__).rstrip(".") or "a part of its tensors"
    return f"{verb}: {text[0].lower()}{text[1:]}"


def _line(text: str | None) -> str:
    return " ".join(inspect.cleandoc(text or "").replace("``", "`").replace("|", "\\|").split())


def main() -> None:
    """Write the document to the standard output."""
    import onnx

    sys.stdout.write(operators_table(onnx_operators(), onnx.__version__))


if __name__ == "__main__":
    main()
