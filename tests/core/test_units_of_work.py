"""Which precisions are counted in FLOP, and which in operations."""

from __future__ import annotations

import pytest

from mansard.core.precision import PRECISIONS, rate_unit, unit_title, work_unit

FLOATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4")


def test_every_precision_has_its_unit() -> None:
    integers = set(PRECISIONS) - set(FLOATS)
    assert integers == {"int8", "int4"}
    assert {work_unit(name) for name in FLOATS} == {"FLOP"}
    assert {rate_unit(name) for name in FLOATS} == {"FLOP/s"}
    assert {work_unit(name) for name in integers} == {"OP"}
    assert {rate_unit(name) for name in integers} == {"OP/s"}


@pytest.mark.parametrize("name", ["uint8", "uint4", "int64", "bool", "int8 tensor"])
def test_types_of_tensors_and_names_of_peaks_count_too(name: str) -> None:
    assert (work_unit(name), rate_unit(name)) == ("OP", "OP/s")


@pytest.mark.parametrize("name", ["float4e2m1", "complex64", "fp16 tensor", ""])
def test_what_is_no_integer_is_in_flop(name: str) -> None:
    assert (work_unit(name), rate_unit(name)) == ("FLOP", "FLOP/s")


def test_a_sum_over_floats_and_integers_is_in_operations() -> None:
    assert work_unit("fp32", "int8") == "OP"
    assert work_unit("fp32", "fp16") == "FLOP"
    assert work_unit() == "FLOP"


@pytest.mark.parametrize(
    ("precisions", "title"),
    [
        ((), "GFLOP/s"),
        (("fp32", "fp16"), "GFLOP/s"),
        (("int8", "int8"), "GOP/s"),
        (("fp16", "int8", "fp32"), "GFLOP/s (int8: GOP/s)"),
        (("int8", "fp16", "int4"), "GFLOP/s (int4, int8: GOP/s)"),
    ],
)
def test_titles_name_both_units_only_over_both(precisions: tuple[str, ...], title: str) -> None:
    assert unit_title("G{}/s", precisions) == title
