"""What each version of TensorRT has: the table against published symbols and a real module."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from mansard.core.errors import MeasurementError
from mansard.inference.engines.tensorrt.versions import (
    MODULE_VARIABLE,
    TABLE,
    load_bindings,
    parse_version,
    read_version,
)
from tests.inference import stand_in


def bindings_of(version: str) -> Any:
    return types.SimpleNamespace(__version__=version, __name__="tensorrt")


@pytest.mark.parametrize(
    ("text", "present", "absent"),
    [
        # JetPack 5.1.1, 6.0, 6.1 and 6.2, 7.0, and what came after
        ("8.5.2", "explicit_batch weakly_typed calibrators dla", "progress fp8"),
        ("8.6.2", "explicit_batch optimization_level dla", "strongly_typed bf16"),
        ("10.3.0.30", "strongly_typed weakly_typed calibrators progress dla bf16 fp8", ""),
        ("10.7.0", "dla", "explicit_batch"),
        ("10.8.0", "weakly_typed fast_precisions", "dla"),
        ("10.16.1", "calibrators", "dla"),
        ("11.0.0", "strongly_typed", "weakly_typed calibrators fast_precisions dla"),
        ("11.3.9", "progress", "dla"),
        ("11.4.1", "dla strongly_typed", "named_targets weakly_typed"),
    ],
)
def test_the_table_says_what_a_version_has(text: str, present: str, absent: str) -> None:
    version = parse_version(text)
    assert [name for name in present.split() if not version.has(name)] == []  # type: ignore[arg-type]
    assert [name for name in absent.split() if version.has(name)] == []  # type: ignore[arg-type]


def test_a_version_is_three_numbers_and_may_come_from_a_long_text() -> None:
    assert parse_version("10.3.0.30").text == "10.3.0"
    assert parse_version("8.6.1.post1").number == (8, 6, 1)
    assert parse_version("10.3.0.30+made-up").text == "10.3.0+made-up"
    assert parse_version("10.3.0").precisions == ("fp32", "fp16", "int8", "bf16", "fp8")
    assert parse_version("8.6.2").precisions == ("fp32", "fp16", "int8")
    with pytest.raises(MeasurementError, match="says that its version is 'none'"):
        parse_version("none")


def test_bindings_that_are_too_old_are_refused_with_the_way_out() -> None:
    with pytest.raises(MeasurementError, match=r"8\.4\.0 is older than 8\.5.*engine trtexec"):
        read_version(bindings_of("8.4.0.9"))


def test_absence_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODULE_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(MeasurementError) as caught:
        load_bindings()
    assert "tensorrt is not installed" in str(caught.value)
    assert "dist-packages" in str(caught.value)
    assert "NVIDIA's package index" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_without_its_libraries_says_which(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "trt_half.py").write_text(
        "raise ImportError('libnvinfer.so.10: cannot open shared object file\\nmore')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(MODULE_VARIABLE, "trt_half")
    with pytest.raises(MeasurementError, match=r"cannot be imported: libnvinfer\.so\.10") as caught:
        load_bindings()
    assert "more" not in str(caught.value)


def symbols(bindings: Any) -> dict[str, bool]:
    """The abilities that show in names of the bindings.

    Not dla, fp8 and explicit_batch: their names are in versions that cannot use them.
    """
    flags, config = bindings.BuilderFlag.__members__, bindings.IBuilderConfig
    creation = bindings.NetworkDefinitionCreationFlag.__members__
    return {
        "weakly_typed": "FP16" in flags and "INT8" in flags,
        "strongly_typed": "STRONGLY_TYPED" in creation,
        "calibrators": hasattr(bindings, "IInt8EntropyCalibrator2"),
        "bf16": "BF16" in bindings.DataType.__members__,
        "optimization_level": hasattr(config, "builder_optimization_level"),
        "progress": hasattr(bindings, "IProgressMonitor") and hasattr(config, "progress_monitor"),
        "parser_node_names": hasattr(bindings.ParserError, "node_operator"),
        "fast_precisions": hasattr(bindings.Builder, "platform_has_fast_int8"),
        "named_targets": hasattr(config, "set_compute_capability"),
        "timing_cache": hasattr(config, "create_timing_cache"),
    }


@pytest.mark.parametrize("text", stand_in.VERSIONS)
def test_the_table_agrees_with_published_symbols(text: str) -> None:
    with stand_in.played(text):
        bindings = load_bindings()
        version, found = read_version(bindings), symbols(bindings)
    assert found == {name: version.has(name) for name in found}  # type: ignore[arg-type]
    assert version.text.partition("+")[0] == text


def test_the_table_agrees_with_a_real_module(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorrt_rtx_bindings", reason="the extra trt-test is not installed")
    monkeypatch.setenv(MODULE_VARIABLE, "tensorrt_rtx_bindings")
    bindings = load_bindings()
    version, found = read_version(bindings), symbols(bindings)
    assert found == {name: version.has(name) for name in found}  # type: ignore[arg-type]
    assert version.is_rtx
    assert version.text.startswith("rtx-1.")
    assert set(found) < set(TABLE)
