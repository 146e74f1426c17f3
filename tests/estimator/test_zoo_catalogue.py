"""The zoo's files: small, valid, the same every time, and found by their names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import ModelProto, checker

from mansard.core.errors import ModelError, StorageError, UsageError
from mansard.estimator import zoo
from tools.zoo.builder import Graph
from tools.zoo.document import zoo_document
from tools.zoo.generate import MODELS, build, regenerate
from tools.zoo.layers import conv, max_pool, round_to_eight
from tools.zoo.serialise import DEFAULTS, OPERATOR_SET, to_bytes, to_model
from tools.zoo.tokens import reshape

_WANTED = """
    alexnet vgg16 vgg19 googlenet inception_v3 inception_resnet_v2 resnet18 resnet50 resnet101
    resnet152 resnet34 inception_v4 densenet121 mobilenet_v1 mobilenet_v2 mobilenet_v3_small
    mobilenet_v3_large mnasnet0_5 mnasnet1_0 efficientnet_b0 efficientnet_b1 efficientnet_b2
    squeezenet1_0 squeezenet1_1 shufflenet_v2_x0_5 shufflenet_v2_x1_0 regnet_x_400mf regnet_x_800mf
    regnet_x_3_2gf regnet_y_400mf regnet_y_800mf regnet_y_1_6gf yolov8n yolov8s
    ssdlite320_mobilenet_v3_large unet bert_base bert_large gpt2 tinyllama_1_1b vit_b_16 swin_t lstm
    gru
"""


def test_names_are_sorted_and_hold_what_jetson_users_run() -> None:
    assert list(zoo.names()) == sorted(set(zoo.names()))
    assert set(zoo.names()) == set(_WANTED.split())


def test_the_table_of_networks_is_up_to_date() -> None:
    document = Path(__file__).resolve().parents[2] / "docs/reference/zoo.md"
    assert document.read_text(encoding="utf-8") == zoo_document()


def test_files_are_small() -> None:
    sizes = [len(zoo.read(name)) for name in zoo.names()]
    assert max(sizes) < 200_000
    assert sum(sizes) < 2_500_000


def test_the_folder_holds_the_catalogue_and_nothing_else() -> None:
    assert {path.name for path in MODELS.iterdir()} == {f"{name}.onnx" for name in zoo.names()}


def test_shipped_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    paths = regenerate(tmp_path)
    assert {path.stem for path in paths} == {*zoo.names()}
    for path in paths:
        shipped, drawn = (MODELS / path.name).read_bytes(), path.read_bytes()
        # Another protobuf may order bytes differently; the message must be the same.
        assert shipped == drawn or onnx.load_from_string(shipped) == onnx.load_from_string(drawn)


@pytest.mark.parametrize("name", zoo.names())
def test_building_twice_gives_the_same_bytes(name: str) -> None:
    assert to_bytes(build(name)) == to_bytes(build(name))


@pytest.mark.parametrize("name", zoo.names())
def test_model_is_valid_and_says_nothing_about_its_maker(name: str) -> None:
    model = onnx.load_from_string(zoo.read(name))
    checker.check_model(model, full_check=True)
    assert (model.ir_version, model.producer_name) == (8, "mansard")
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 17)]
    assert model.graph.name == name
    assert not model.doc_string
    assert not model.graph.doc_string
    assert not any(node.doc_string for node in model.graph.node)
    assert not model.metadata_props


@pytest.mark.parametrize("name", zoo.names())
def test_names_of_nodes_and_tensors_are_unique_and_plain(name: str) -> None:
    graph = onnx.load_from_string(zoo.read(name)).graph
    # What fills weights is nameless, to keep the files small; the weights have names.
    nodes = [node.name for node in graph.node if node.op_type != "ConstantOfShape"]
    tensors = [output for node in graph.node for output in node.output]
    tensors += [tensor.name for tensor in graph.initializer]
    tensors += [value.name for value in graph.input]
    for group in (nodes, tensors):
        assert len(group) == len(set(group))
        assert all(text and text.isascii() and text.isprintable() for text in group)


def _free_dimensions(model: ModelProto) -> Iterator[str]:
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        assert dims[0].dim_param == "batch"
        yield from (dim.dim_param for dim in dims if dim.dim_param)


@pytest.mark.parametrize("name", zoo.names())
def test_an_entry_gives_a_value_for_every_free_dimension(name: str) -> None:
    free = set(_free_dimensions(onnx.load_from_string(zoo.read(name))))
    assert free == dict(zoo.entry(name).dims).keys()


def test_attributes_left_out_are_the_specifications_defaults() -> None:
    # What the schema states; strides and pads have their defaults in the text only.
    for operator, attributes in DEFAULTS.items():
        stated = onnx.defs.get_schema(operator, OPERATOR_SET).attributes
        for name, value in attributes.items():
            default = onnx.helper.get_attribute_value(stated[name].default_value)
            in_text = {"pads": (0, 0, 0, 0), "strides": (1, 1)}
            assert value == pytest.approx(in_text.get(name, default)), (operator, name)


def test_listing_reading_and_writing_do_not_import_onnx(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from mansard.estimator import zoo; "
        "zoo.entry('lstm'); zoo.write('lstm', pathlib.Path(sys.argv[1])); "
        "sys.exit('onnx' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_write_makes_the_folder_and_copies_the_file(tmp_path: Path) -> None:
    path = zoo.write("lstm", tmp_path / "a" / "b")
    assert path == tmp_path / "a" / "b" / "lstm.onnx"
    assert path.read_bytes() == zoo.read("lstm")
    assert [left.name for left in path.parent.iterdir()] == ["lstm.onnx"]


def test_write_says_where_it_could_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file"):
        zoo.write("lstm", tmp_path / "file")


@pytest.mark.parametrize("ask", [zoo.entry, zoo.read])
def test_an_unknown_name_is_answered_with_the_nearest(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(UsageError, match=r"no network 'ResNet-50'; did you mean resnet50\?"):
        ask("ResNet-50")


def test_an_unlike_name_is_answered_with_what_lists_them() -> None:
    with pytest.raises(UsageError, match=r"no network '\.\./x'; 'mansard models list'"):
        zoo.entry("../x")


def test_a_name_used_twice_is_refused() -> None:
    g = Graph("twice")
    x = g.input("image", ("batch", 3, 8, 8))
    conv(g, x, "conv1", 4, kernel=1)
    with pytest.raises(ModelError, match=r"zoo network twice: two tensors are named conv1"):
        conv(g, x, "conv1", 4, kernel=1)


def test_a_free_dimension_where_a_number_is_needed_is_refused() -> None:
    g = Graph("free")
    x = g.input("image", ("batch", "channels", 8, 8))
    with pytest.raises(ModelError, match=r"image: dimension 1 is free \(channels\)"):
        conv(g, x, "conv1", 4, kernel=1)


@pytest.mark.parametrize(
    ("channels", "rounded"),
    # Down from 35.2 loses 9 %, from 17.6 also; 11.9 would lose a third, 4 is below the least.
    [(35.2, 32), (17.6, 16), (88, 88), (44, 48), (11.9, 16), (4, 8), (26.4, 24)],
)
def test_widths_are_multiples_of_eight(channels: float, rounded: int) -> None:
    assert round_to_eight(channels) == rounded


@given(
    side=st.integers(3, 40),
    kernel=st.integers(1, 5),
    width=st.integers(1, 5),
    stride=st.integers(1, 4),
    padding=st.integers(0, 2),
    ceil_mode=st.booleans(),
)
def test_shapes_agree_with_onnxs_inference(
    side: int, kernel: int, width: int, stride: int, padding: int, ceil_mode: bool
) -> None:
    # Padding beyond half of the window is refused by PyTorch, whose rule this is.
    kernel, padding = min(kernel, side), min(padding, kernel // 2, min(kernel, side) // 2)
    window = (kernel, min(width, side))
    g = Graph("windows")
    x = g.input("image", ("batch", 4, side, side))
    pooled = max_pool(
        g, x, "pool", kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode
    )
    drawn = conv(g, x, "conv", 6, kernel=kernel, stride=stride, padding=padding, groups=2)
    g.output(pooled, "pooled")
    g.output(conv(g, x, "oblong", 6, kernel=window, stride=stride, padding=(padding, 1)), "wide")
    g.output(reshape(g, drawn, "rows", (0, 6, -1)), "drawn")
    to_model(g)  # raises where a declared output differs from the inferred one
