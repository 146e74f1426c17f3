"""Which axes of an exported network stay symbols, and with what sizes it is traced."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.errors import UsageError
from mansard.estimator.export.network import Input
from mansard.estimator.export.request import DynamicAxis, ExportRequest
from mansard.estimator.export.run import plan_attempts
from mansard.estimator.export.tracing import plan_axes, traced_sizes, with_sizes

TOKENS = Input("ids", (1, 16), "int64", symbols={1: "sequence"})
MASK = Input("mask", (1, 16), "int64", "ones", symbols={1: "sequence"})
TABLE = Input("table", (5, 4), "float32")


def test_export_axes_by_default() -> None:
    # axis 0 is the batch, unless it differs from the first input's; a scalar has none
    axes = plan_axes([TOKENS, MASK, TABLE, Input("s", (), "float32")], [], is_static=False)
    assert axes == (
        DynamicAxis("ids", 0, "batch"),
        DynamicAxis("ids", 1, "sequence"),
        DynamicAxis("mask", 0, "batch"),
        DynamicAxis("mask", 1, "sequence"),
    )
    assert plan_axes([TOKENS, MASK], [], is_static=True) == ()


def test_export_a_wish_goes_before_the_default() -> None:
    renamed = DynamicAxis("ids", 0, "n")
    moved = DynamicAxis("mask", 1, "batch")
    assert plan_axes([TOKENS], [renamed], is_static=False) == (
        renamed,
        DynamicAxis("ids", 1, "sequence"),
    )
    # the batch of 'mask' is its axis 1, so its axis 0 is none, and axis 1 no sequence
    square = Input("mask", (1, 1), "int64", symbols={1: "sequence"})
    assert plan_axes([square], [moved], is_static=False) == (moved,)


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        (DynamicAxis("idz", 0, "n"), "use one of: ids"),
        (DynamicAxis("ids", 2, "n"), "ids has 2 axes"),
        (DynamicAxis("table", 0, "sequence"), "sequence would be 5 and 16"),
    ],
)
def test_export_axes_that_cannot_be(axis: DynamicAxis, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan_axes([TOKENS, TABLE], [axis], is_static=False)


def test_export_sizes_for_tracing() -> None:
    axes = plan_axes([TOKENS, TABLE], [], is_static=False)
    sizes = traced_sizes([TOKENS, TABLE], axes)
    assert sizes == {"batch": 2, "sequence": 16}  # a batch of 1 would be taken for a constant
    assert with_sizes([TOKENS, TABLE], axes, {"batch": 3, "sequence": 17}) == {
        "ids": (3, 17),
        "table": (5, 4),
    }


def names(request: ExportRequest, *inputs: Input) -> list[tuple[str, int]]:
    return [(one.name, len(one.axes)) for one in plan_attempts(inputs, request)]


def test_export_attempts_end_with_fixed_sizes() -> None:
    request = ExportRequest("net.py:net", Path("a.onnx"))
    assert names(request, TOKENS) == [
        ("dynamo", 2),
        ("torchscript", 2),
        ("dynamo with fixed sizes", 0),
        ("torchscript with fixed sizes", 0),
    ]


def test_export_attempts_keep_what_was_asked() -> None:
    asked = (DynamicAxis("table", 1, "width"),)
    one = ExportRequest("net.py:net", Path("a.onnx"), dynamic=asked, exporter="dynamo")
    assert names(one, TABLE) == [("dynamo", 2), ("dynamo with fixed sizes", 1)]
    static = ExportRequest("net.py:net", Path("a.onnx"), is_static=True, exporter="torchscript")
    assert names(static, TABLE) == [("torchscript with fixed sizes", 0)]
