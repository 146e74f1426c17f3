"""The table of all operators, made from the registry and from ONNX's own list.

python -m mansard.estimator.operators.table > docs/reference/operators.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence

from mansard.estimator.operators import REGISTRY, Operator
from mansard.estimator.operators.registry import BytesFunction

Key = tuple[str, str]

_HEAD = """# Operators

Made from the registry by `python -m mansard.estimator.operators.table`; do not edit. What
the counts mean: [scoring.md](../understand/scoring.md).

- An operation is one addition, multiplication, division, comparison or rounding; a
  function is one evaluation of exp, log, sqrt, erf and the like, and one random number.
  Multiply-adds count 2.
- The sum, the extreme or the running sum of n elements takes n - 1 operations, their mean
  a division more. Choosing one of two values is part of the comparison before it; moving,
  converting and indexing elements is no work.
- Where ONNX defines an operator by a function of others, its operations are counted, less
  those that only choose or scale by 1.
- Every operator reads its distinct inputs once and writes its outputs once, except where
  the last column says otherwise. Whatever follows from the file and the dimensions alone
  is computed beforehand and costs nothing.
- Versions are those of the operator that onnx {onnx} knows, all of them covered; an
  operator of another package has none.

## Adding an operator, in four steps

1. Find its family: a file in `estimator/src/mansard/estimator/operators/` (convolution,
   pooling, indexing, …); outside ONNX's own domains in its `contrib/` or `ml/`.
2. Write its shape rule, which sees shapes, attributes and small known values, and gives a
   type and a shape for each output (a dimension that depends on data is `None`; if
   something bounds it, `operators/upper_bounds.py` has a line for it); below it
   its cost, with the link to its specification and the arithmetic in the docstring. One
   decorator above the cost registers both: `@operator("MyOperator", shape=my_shape)`.
   `not_weights` are inputs that are no weights, `reads` and `writes` tell its bytes where it
   does not touch all of its tensors. Where the cost is a common one (`move`, `view`,
   `per_element(1)`), `@shape_of("MyOperator", cost=move)` above the shape rule is all.
3. Test it: the smallest node, the arithmetic in a comment, the literal
   (`tests/estimator/*_cases.py`).
4. Write this table again, run `make check` and the test; a line in `docs/understand/scoring.md` if
   the operator brings a new convention of counting.

`tests/estimator/test_adding_an_operator.py` takes these steps for an operator that does not
exist.

## All operators

| operator | versions | work | traffic |
|---|---|---|---|
"""

# Domains whose operators ONNX lists, the standard one as the empty name.
ONNX_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")


def operators_table(versions: Mapping[Key, Sequence[int]], onnx_version: str) -> str:
    """docs/reference/operators.md as Markdown: a row for each operator of every domain."""
    known = REGISTRY.operators()
    rows = [
        f"| {_name(*key)} | {', '.join(map(str, versions.get(key, ())))} "
        f"| {_work(known.get(key))} | {_traffic(known.get(key))} |\n"
        for key in sorted(known.keys() | versions.keys())
    ]
    return _HEAD.replace("{onnx}", onnx_version) + "".join(rows)


def onnx_operators() -> dict[Key, list[int]]:
    """All versions of each operator that the installed onnx package lists."""
    from onnx import defs

    found: dict[Key, list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    return {key: sorted(numbers) for key, numbers in found.items()}


def _name(domain: str, op_type: str) -> str:
    return f"{domain}.{op_type}" if domain else op_type


def _work(known: Operator | None) -> str:
    if known is None:
        return "Refused: it has no formula."
    return _line(known.cost.__doc__)


def _traffic(known: Operator | None) -> str:
    if known is None:
        return ""
    if known.is_view:
        return "none: a view"
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
