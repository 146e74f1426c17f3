"""What the options of ``mansard models export`` say, without PyTorch."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import UsageError
from mansard.estimator.export.request import (
    DTYPES,
    DynamicAxis,
    ExportInput,
    LibrarySource,
    PythonSource,
    parse_dynamic,
    parse_input,
    parse_settings,
    parse_source,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("x=1x3x224x224", ExportInput("x", (1, 3, 224, 224))),
        ("ids=1x16:int64", ExportInput("ids", (1, 16), "int64")),
        ("half=7:fp16", ExportInput("half", (7,), "float16")),
        ("scale=scalar:fp64", ExportInput("scale", (), "float64")),
    ],
)
def test_export_inputs_are_read(text: str, spec: ExportInput) -> None:
    assert parse_input(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "x=", "=1x2", "1x=2", "x=1x", "x=0x3", "x=-1", "x=1 x2", "x=1x2:", "x=1x2:int3"),
        *("x=²", "x=1x99999999999", "x=2147483648", "x=1,3", "a.b=1", "x=:int64"),
    ],
)
def test_export_inputs_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="name=1x3x224x224"):
        parse_input(text)


@given(
    name=st.from_regex(r"[a-z_][a-z_0-9]{0,20}", fullmatch=True),
    shape=st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=6),
    dtype=st.none() | st.sampled_from(sorted(DTYPES)),
)
def test_export_every_shape_is_read_back(name: str, shape: list[int], dtype: str | None) -> None:
    text = f"{name}={'x'.join(map(str, shape))}" + (f":{dtype}" if dtype else "")
    expected = ExportInput(name, tuple(shape), DTYPES[dtype] if dtype else None)
    assert parse_input(text) == expected


@given(st.text(max_size=40))
def test_export_options_take_any_text_or_refuse_it(text: str) -> None:
    for parse in (parse_input, lambda one: parse_dynamic([one]), lambda one: parse_settings([one])):
        with suppress(UsageError):
            parse(text)


def test_export_dynamic_axes() -> None:
    axes, is_static = parse_dynamic(["ids:1=sequence", "image:0=b"])
    assert axes == (DynamicAxis("ids", 1, "sequence"), DynamicAxis("image", 0, "b"))
    assert not is_static
    assert parse_dynamic(["none"]) == ((), True)
    assert parse_dynamic(["none", "x:1=n"]) == ((DynamicAxis("x", 1, "n"),), True)


@pytest.mark.parametrize(
    "text", ["", "x", "x:1", "x:=n", "x:-1=n", "x:1=", "x:1=2", ":1=n", "x:1=a b"]
)
def test_export_dynamic_axes_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="input:axis=symbol"):
        parse_dynamic([text])


def test_export_one_axis_has_one_symbol() -> None:
    with pytest.raises(UsageError, match="x:1 twice"):
        parse_dynamic(["x:1=a", "x:1=b"])


def test_export_settings_are_json_or_text() -> None:
    settings = parse_settings(
        ["layers=2", "act=gelu", "tie=false", "sizes=[1, 2]", "vision.size=3", "vision.name=a=b"]
    )
    assert settings == {
        "layers": 2,
        "act": "gelu",
        "tie": False,
        "sizes": [1, 2],
        "vision": {"size": 3, "name": "a=b"},
    }


@pytest.mark.parametrize("texts", [["layers"], ["=3"], ["a..b=1"], ["a=1", "a.b=2"], ["a-b=1"]])
def test_export_settings_that_set_nothing(texts: list[str]) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_settings(texts)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("my.package:make", PythonSource("my.package", "make", is_file=False)),
        ("nets/small.py:Nets.small", PythonSource("nets/small.py", "Nets.small", is_file=True)),
        ("a:b.py:net", PythonSource("a:b.py", "net", is_file=True)),
        ("transformers:BertConfig", LibrarySource("transformers", "BertConfig")),
        ("transformers:dir/config.json", LibrarySource("transformers", "dir/config.json")),
        ("torchvision:resnet50", LibrarySource("torchvision", "resnet50")),
    ],
)
def test_export_sources_are_told_apart(text: str, source: object) -> None:
    assert parse_source(text) == source


@pytest.mark.parametrize(
    "text", ["", "resnet50", "net.py", "a/b:c", ":x", "a:", "net.py:", "net.py:f()", "a b:c", "x:1"]
)
def test_export_sources_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"package\.module:factory"):
        parse_source(text)
