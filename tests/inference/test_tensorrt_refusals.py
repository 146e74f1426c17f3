"""Messages of TensorRT as one line. The texts are those that it printed, by version."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import pytest

from mansard.core.errors import TransientError
from mansard.inference.engines.tensorrt.messages import (
    BuildProgress,
    Messages,
    explained,
    not_parsed,
    remarks,
    without_places,
)
from mansard.inference.engines.tensorrt.versions import parse_version

NO_DRIVER = (
    "[checkMacros.cpp::catchCudaError::250] Error Code 1: Cuda Runtime (In catchCudaError at "
    "/_src/common/dispatch/checkMacros.cpp:250 (cudaError 35: CUDA driver version is insufficient "
    "for CUDA runtime version))"
)


@pytest.mark.parametrize(
    ("errors", "line"),
    [
        (  # 8.4, github.com/NVIDIA/TensorRT/issues/2643
            ["2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory (no "
             "further information)",
             "10: [optimizer.cpp::computeCosts::3873] Error Code 10: Internal Error (Could not "
             "find any implementation for node {ForeignNode[a...b]}.)"],
            "net: too little memory; close other programs, use a smaller batch, or build it with "
            "less workspace",
        ),
        (  # 8.x without a word of memory
            ["10: [optimizer.cpp::computeCosts::3873] Error Code 10: Internal Error (Could not "
             "find any implementation for node {ForeignNode[@3@...@9@]}.)"],
            "net: no kernel can run {ForeignNode[@3@...@9@]}: none exists in these types, or "
            "memory or workspace is short; close other programs, use a smaller batch, or build it "
            "with less workspace",
        ),
        (  # 8.0, github.com/ELS-RD/transformer-deploy/issues/43
            ["4: [standardEngineBuilder.cpp::initCalibrationParams::1402] Error Code 4: Internal "
             "Error (Calibration failure occurred with no scaling factors detected. This could be "
             "due to no int8 calibrator or insufficient custom scales for network layers. Please "
             "see int8 sample to setup calibration correctly.)",
             "2: [builder.cpp::buildSerializedNetwork::609] Error Code 2: Internal Error "
             "(Assertion enginePtr != nullptr failed. )"],
            "net: there is no calibration data for int8; give arrays to calibrate with, or a file "
            "with QuantizeLinear nodes",
        ),
        (  # TensorRT for RTX 1.7
            ["IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([pass.cpp:1500: run_passes] "
             "Cannot compile for target(s) sm75, because the model contains HW-specific datatypes: "
             "b16. In compileGraph at /_src/optimizer/myelin/codeGenerator.cpp:2012)"],
            "net: this device has no b16; use another precision",
        ),
        (  # the same; what follows from there being no driver is left out
            [NO_DRIVER,
             "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error (Dynamic input "
             "tensor x is missing dimensions in profile 0. In validate at "
             "/_src/optimizer/api/network.cpp:4046)"],
            "net: Dynamic input tensor x is missing dimensions in profile 0",
        ),
        (
            [NO_DRIVER],
            "net: there is no NVIDIA driver that TensorRT can use; build it on the device that "
            "runs it",
        ),
        (  # any other error of CUDA's is no absent driver
            ["CUDA initialization failure with error: 999. Please check your CUDA installation"],
            "net: CUDA initialization failure with error: 999. Please check your CUDA installation",
        ),
        (
            ["CUDA initialization failure with error: 2: out of memory"],
            "net: too little memory; close other programs, use a smaller batch, or build it with "
            "less workspace",
        ),
        ([], "net: TensorRT gives no reason"),
    ],
)  # fmt: skip
def test_errors_become_one_line(errors: list[str], line: str) -> None:
    assert str(explained(Messages(errors=errors), "net")) == line


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        ("2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory ()", True),
        ("CUDA initialization failure with error: 999. Please check your CUDA installation", True),
        (NO_DRIVER, True),
        ("ModelImporter.cpp:949: While parsing node number 0 [Odd -> y]: no importer", False),
        ("Error Code 1: Myelin (the model contains HW-specific datatypes: b16.)", False),
        ("Error Code 4: API Usage Error (Dynamic input x is missing dimensions)", False),
    ],
)
def test_what_may_be_gone_later_is_told_from_what_the_network_or_device_lacks(
    error: str, is_transient: bool
) -> None:
    found = explained(Messages(errors=[error]), "net")
    assert isinstance(found, TransientError) == is_transient


@dataclass
class ParserError:
    """As the bindings have it up to 8.6: without the node's name and operator."""

    text: str
    kind: str = "UNSUPPORTED_NODE"
    place: int = 5

    def desc(self) -> str:
        return self.text

    def code(self) -> Any:
        return f"ErrorCode.{self.kind}"

    def node(self) -> int:
        return self.place


def parser_of(*errors: ParserError) -> Any:
    return types.SimpleNamespace(num_errors=len(errors), get_error=lambda index: errors[index])


def test_an_operator_is_named_by_an_older_parser_too() -> None:
    found = ParserError("getPluginCreator could not find plugin: Odd version: 1")
    said = not_parsed(parser_of(found), Messages(), parse_version("8.6.1"), "net")
    assert str(said) == (
        "net: TensorRT 8.6.1 has no operator Odd (node 5); use a newer TensorRT, or --engine ort"
    )


def test_any_other_reason_of_the_parser_is_told_without_places() -> None:
    found = ParserError(
        "Assertion failed: model->ParseFromCodedStream(&codedInput): Failed to parse the model.",
        "MODEL_DESERIALIZE_FAILED",
        -1,
    )
    said = not_parsed(parser_of(found), Messages(), parse_version("8.6.1"), "net")
    assert str(said) == (
        "net: TensorRT cannot read it: Assertion failed: "
        "model->ParseFromCodedStream(&codedInput): Failed to parse the model."
    )


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain words", "plain words"),
        ("ModelImporter.cpp:1071: Make sure input x has Int64 binding.",
         "Make sure input x has Int64 binding."),
        ("ITensor::getDimensions: Error Code 4: API Usage Error (@0@: types differ. In "
         "validateTypes at /_src/optimizer/common/nodes/elementWiseNode.cpp:40)",
         "@0@: types differ"),
        ("2: [a.cpp::b::1] Error Code 2: OutOfMemory (no further information)",
         "no further information"),
    ],
)  # fmt: skip
def test_places_in_its_sources_are_left_out(text: str, left: str) -> None:
    assert without_places(text) == left


def test_few_warnings_are_kept_as_remarks() -> None:
    said = [f"layer {number} is slow" for number in range(7)]
    found = remarks(Messages(warnings=["CUDA lazy loading is not enabled.", *said]), most=2)
    assert found == ("layer 0 is slow", "layer 1 is slow", "5 more warnings")


def test_informing_messages_are_not_kept_and_a_repeated_one_once() -> None:
    kept = Messages()
    for severity, text in [(0, "broken"), (1, "wrong"), (1, "wrong"), (2, "odd"), (3, "so what")]:
        kept.keep(severity, text)
    assert kept == Messages(errors=["broken", "wrong"], warnings=["odd"])


def test_progress_is_the_share_of_the_outermost_phase() -> None:
    progress = BuildProgress("building", lambda _now, _at_most_s: None, lambda: 0.0)
    progress.start("Building", None, 4)
    progress.step("Building")
    assert progress.fraction == 0.25
    progress.start("Timing", "Building", 10)
    for _ in range(5):
        progress.step("Timing")
    assert progress.fraction == 0.375  # (1 + 5/10) / 4
    progress.finish("Timing")
    assert progress.fraction == 0.375  # it never falls
    progress.step("Building")
    assert progress.fraction == 0.5


def test_progress_is_told_after_a_pause_alone() -> None:
    told: list[tuple[str, float]] = []
    clock = iter([0.0, 1.0, 2.5, 3.0])
    progress = BuildProgress("building", lambda *said: told.append(said), lambda: next(clock))
    progress.start("Timing", None, 3)
    for _ in range(3):
        progress.step("Timing")
    assert [now for now, _ in told] == ["building: Timing, 67%"]
    assert all(at_most_s > 60 for _, at_most_s in told)


def test_what_is_raised_cancels_and_is_kept() -> None:
    def raising(_now: str, _at_most_s: float) -> None:
        raise BrokenPipeError

    clock = iter([0.0, 9.0, 18.0])
    progress = BuildProgress("building", raising, lambda: next(clock))
    progress.start("Timing", None, 3)
    assert not progress.step("Timing")
    assert isinstance(progress.stopped, BrokenPipeError)
