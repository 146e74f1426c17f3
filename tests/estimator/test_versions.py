"""Versions of files, and what they do not have: no runtime takes it, so the score notes it."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from onnx import defs, helper

from mansard.core.errors import ModelError
from mansard.estimator import score, totals
from mansard.estimator.reading.versions import ATTRIBUTES, NEWEST, NEWEST_IR
from tests.estimator.models import single_model, text_model

_RELU = "g (float[1,3] x) => (float[1,3] y) { y = Relu(x) }"


def test_the_tables_are_those_of_the_schemas() -> None:
    newest = dict.fromkeys(NEWEST, 0)
    attributes: dict[str, set[str]] = {domain: set() for domain in NEWEST}
    for schema in defs.get_all_schemas_with_history():
        if schema.domain in newest:
            newest[schema.domain] = max(newest[schema.domain], schema.since_version)
            attributes[schema.domain] |= set(schema.attributes)
    assert newest == NEWEST
    assert attributes == ATTRIBUTES
    assert NEWEST_IR == onnx.IR_VERSION


def relu(change: Callable[[onnx.ModelProto], object] = lambda _: None) -> bytes:
    proto = onnx.ModelProto.FromString(text_model(_RELU))
    change(proto)
    data: bytes = proto.SerializeToString()
    return data


def test_opsets_that_a_file_names_twice() -> None:
    data = relu(lambda proto: proto.opset_import.append(helper.make_opsetid("", 11)))
    (note,) = score(data).notes
    assert note.startswith("the file names the opsets 11 and ")
    assert note.endswith("of ai.onnx: 11 is counted")
    same = relu(lambda proto: proto.opset_import.append(proto.opset_import[0]))
    assert score(same).notes == ()


@pytest.mark.parametrize(
    ("op_type", "opset", "words"),
    [
        ("Gelu", 13, "ai.onnx has this operator from opset 20 on, and the file is of 13"),
        ("Mish", 17, "from opset 18 on, and the file is of 17"),
        ("Gelu", 20, None),
        ("LayerNormalization", 14, None),  # ONNX Runtime has it in every opset
    ],
)
def test_an_operator_that_came_later(op_type: str, opset: int, words: str | None) -> None:
    more = ["float[3]"] if op_type == "LayerNormalization" else []
    proto = single_model(op_type, ["float[2,3]", *more], opset)
    notes = score(proto.SerializeToString()).notes
    assert (words is None) == (len([note for note in notes if "opset" in note]) == 0)
    assert words is None or words in notes[0]


def test_an_operator_that_was_removed() -> None:
    proto = single_model("Scatter", ["float[2,3]", "int64[2,3]", "float[2,3]"], 20)
    assert (
        "ai.onnx has no such operator from opset 11 on" in score(proto.SerializeToString()).notes[0]
    )


def test_an_attribute_that_no_operator_has() -> None:
    # 'stride' leaves the strides at 1: 6 x 6 places of 27 products
    proto = single_model("Conv", ["float[1,3,8,8]", "float[1,3,3,3]"], stride=[2, 2])
    found = score(proto.SerializeToString())
    assert totals(found).macs == 36 * 27
    assert "no operator of ai.onnx has an attribute 'stride': it is not counted" in found.notes[0]


def test_an_attribute_that_is_there_twice() -> None:
    proto = single_model("Conv", ["float[1,3,8,8]", "float[1,3,3,3]"], strides=[1, 1])
    proto.graph.node[0].attribute.append(helper.make_attribute("strides", [2, 2]))
    with pytest.raises(ModelError, match="attribute 'strides' is there twice"):
        score(proto.SerializeToString())


@pytest.mark.parametrize(("domain", "version"), [("", 0), ("", -3), ("ai.onnx.ml", 0), ("", 10**6)])
def test_versions_that_there_are_not(domain: str, version: int) -> None:
    def change(proto: onnx.ModelProto) -> None:
        del proto.opset_import[:]
        proto.opset_import.append(helper.make_opsetid(domain, version))

    with pytest.raises(ModelError, match="which there is not; the file is damaged"):
        score(relu(change))


def test_an_unknown_domain_that_no_node_needs() -> None:
    data = relu(lambda proto: proto.opset_import.append(helper.make_opsetid("com.acme", 99)))
    assert score(data).notes == ()


def test_classical_models_of_a_file_that_names_no_opset_of_theirs() -> None:
    proto = single_model("Scaler", ["float[1,3]"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0])
    del proto.opset_import[1]
    (note,) = score(proto.SerializeToString()).notes
    assert "does not say which opset of ai.onnx.ml" in note


@pytest.mark.parametrize("opset", [29, 999])
def test_an_opset_from_the_future_is_told(opset: int) -> None:
    (note,) = score(text_model(_RELU, opset)).notes
    assert note.startswith(f"opset {opset} of ai.onnx is newer than 28, the newest known")


def test_an_opset_of_the_future_of_classical_models() -> None:
    proto = single_model("Scaler", ["float[1,3]"], domain="ai.onnx.ml", offset=[0.0], scale=[1.0])
    proto.opset_import[1].version = 77
    assert "opset 77 of ai.onnx.ml is newer" in score(proto.SerializeToString()).notes[0]


def test_a_file_format_from_the_future_is_told() -> None:
    (note,) = score(text_model(_RELU, ir_version=999)).notes
    assert "IR version 999, newer than 14" in note


def test_known_versions_need_no_note() -> None:
    assert score(text_model(_RELU, 28, 14)).notes == ()


def test_a_file_without_an_opset_is_told() -> None:
    proto = onnx.ModelProto.FromString(text_model(_RELU))
    del proto.opset_import[:]
    (note,) = score(proto.SerializeToString()).notes
    assert "does not say which opset of ai.onnx it was written for" in note
    # before IR version 3 files had none
    proto.ir_version = 2
    assert score(proto.SerializeToString()).notes == ()
    other = helper.make_opsetid("com.microsoft", 1)
    proto.ir_version = 8
    proto.opset_import.append(other)
    assert len(score(proto.SerializeToString()).notes) == 1
