"""Exports with PyTorch itself; where it is not installed this file skips as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from mansard.core.errors import MansardError, ModelError, UsageError
from mansard.estimator import score, totals
from mansard.estimator.export import Exported, ExportRequest, export
from mansard.estimator.export.request import DynamicAxis, Exporter, parse_input

REASON = "needs PyTorch: pip install 'mansard[export]'"
torch = pytest.importorskip("torch", reason=REASON)
pytest.importorskip("onnxscript", reason=REASON)
NO_RESNET51 = "resnet" if find_spec("torchvision") else "needs torchvision"
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]  # theirs are no errors

NETS = """
import sys
import torch
from torch import nn

class Small(nn.Module):
    def __init__(self, width: int = 8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.fc = nn.Linear(width, 5)
    def forward(self, image, scale=None):
        y = self.conv(image).relu().mean((2, 3))
        return {"logits": self.fc(y), "features": y}

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, a, b):
        return self.fc(a) + b

class Fixed(Two):
    def forward(self, x):
        return self.fc(x.reshape(1, 4))

class Branches(Two):
    def forward(self, x):
        return self.fc(x) if x.sum() > 1e9 else x

class Noisy(Two):
    def forward(self, x):
        return self.fc(x) + torch.randn(4)

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.rnn = nn.LSTM(4, 6, batch_first=True)
    def forward(self, tokens):
        return self.rnn(self.table(tokens))

class Nothing(Two):
    def forward(self, x):
        return 3

def exits():
    sys.exit(0)

def raises():
    raise OSError("no weights here")

def half():
    return nn.Linear(64, 4).half()

ready = Small()
number = 3
"""

Run = Callable[..., Exported]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Exports ``name`` of the networks above into ``net.onnx`` of the test's folder."""
    (tmp_path / "nets.py").write_text(NETS)

    def export_one(name: str, **options: object) -> Exported:
        source = name if ":" in name else f"{tmp_path / 'nets.py'}:{name}"
        return export(ExportRequest(source, tmp_path / "net.onnx", **options))  # type: ignore[arg-type]

    return export_one


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export_both_exporters_give_the_same_counts(run: Run, exporter: Exporter) -> None:
    exported = run("Small", exporter=exporter, settings={"width": 16})
    assert exported.exporter == exporter
    assert exported.inputs == {"image": ("batch", 3, 224, 224)}
    assert [check.sizes for check in exported.checks] == [{"batch": 2}, {"batch": 3}]
    assert all(check.greatest_relative < 1e-4 for check in exported.checks)
    assert exported.n_parameters == 16 * 27 + 16 + 16 * 5 + 5
    counted = totals(score(exported.paths[0], batch=1))
    assert counted.macs == 222 * 222 * 16 * 27 + 16 * 5
    assert counted.parameters == exported.n_parameters


def test_export_a_network_that_is_ready(run: Run, tmp_path: Path) -> None:
    exported = run("ready", inputs=(parse_input("image=1x3x32x48"),), is_static=True)
    assert exported.inputs == {"image": (1, 3, 32, 48)}
    assert [check.sizes for check in exported.checks] == [{}]
    assert [path.name for path in tmp_path.glob("*.onnx*")] == ["net.onnx"]
    image = np.ones((1, 3, 32, 48), np.float32)
    outputs = onnxruntime.InferenceSession(exported.paths[0]).run(None, {"image": image})
    assert [one.shape for one in outputs] == [(1, 5), (1, 8)]


def test_export_without_weights_is_small_and_scores_the_same(run: Run) -> None:
    full = run("Small", settings={"width": 256})
    whole = totals(score(full.paths[0], batch=4))
    light = run("Small", settings={"width": 256}, with_weights=False)
    assert light.size_bytes < full.size_bytes / 4
    counted = totals(score(light.paths[0], batch=4))
    assert (counted.macs, counted.parameters) == (whole.macs, whole.parameters)


def test_export_leaves_no_path_of_this_machine_in_the_file(run: Run, tmp_path: Path) -> None:
    content = run("Small", exporter="dynamo").paths[0].read_bytes()
    assert str(tmp_path).encode() not in content
    assert b"stack_trace" not in content


def test_export_several_inputs_and_symbols(run: Run) -> None:
    with pytest.raises(UsageError, match=r"\(a, b\)"):
        run("Two")
    with pytest.raises(UsageError, match="forward also needs b"):
        run("Two", inputs=(parse_input("a=1x4"),))
    with pytest.raises(UsageError, match="use one of: a, b"):
        run("Two", inputs=(parse_input("c=1x4"),))
    inputs = (parse_input("b=3x6x4"), parse_input("a=3x6x4"))
    exported = run(
        "Two", inputs=inputs, dynamic=(DynamicAxis("a", 1, "n"), DynamicAxis("b", 1, "n"))
    )
    assert exported.inputs == {"a": ("batch", "n", 4), "b": ("batch", "n", 4)}
    assert exported.checks[1].sizes == {"n": 7, "batch": 4}


def test_export_guesses_tokens_and_half_precision(run: Run) -> None:
    exported = run("Tokens")
    assert exported.inputs == {"tokens": ("batch", 16)}
    assert "assumed an input of 1x16" in exported.notes[0]
    assert exported.checks[0].n_outputs == 3
    exported = run("half")
    element = onnx.load(exported.paths[0]).graph.input[0].type.tensor_type.elem_type
    assert element == onnx.TensorProto.FLOAT16
    assert exported.checks[0].tolerance == 1e-2


def test_export_falls_back_and_says_so(run: Run) -> None:
    exported = run("Branches")
    assert exported.exporter == "torchscript"
    assert any(note.startswith("dynamo: ") for note in exported.notes)
    assert any("Python conditions" in note for note in exported.notes)
    with pytest.raises(ModelError, match="dynamo exporter raised"):
        run("Branches", exporter="dynamo")


def test_export_a_network_of_one_batch_alone(run: Run) -> None:
    exported = run("Fixed")
    assert exported.inputs == {"x": (1, 4)}
    assert any("invalid for input of size 8" in note for note in exported.notes)
    # and where the batch was asked for by name, fixed sizes are no answer
    with pytest.raises(ModelError, match="invalid for input of size 8"):
        run("Fixed", dynamic=(DynamicAxis("x", 0, "n"),))


def test_export_another_result_is_an_error(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"of its greatest value; at most 0\.0001"):
        run("Noisy")
    assert not (tmp_path / "net.onnx").exists()
    run("Noisy", check=False)
    run("Noisy", tolerance=1e3)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("exits", ModelError, "raised SystemExit: 0"),
        ("raises", ModelError, "raised OSError: no weights here"),
        ("Nothing", ModelError, "returns no tensor"),
        ("number", UsageError, "is a int"),
        ("nmber", UsageError, "use one of: number"),
        ("Small.forward", ModelError, "raised TypeError"),
        ("json:dumps", ModelError, "raised TypeError"),
        ("json:nothing", UsageError, "'nothing' is not there"),
        ("no.such.module:x", UsageError, "no module 'no'"),
        ("nothing.py:x", UsageError, "no such file"),
        ("torchvision:resnet51", MansardError, NO_RESNET51),
        ("transformers:bert-base-uncased", MansardError, "transformers"),
    ],
)
def test_export_sources_that_fail(
    run: Run, tmp_path: Path, name: str, error: type[MansardError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        run(name)
    assert "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} <= {"nets.py", "__pycache__"}


def test_export_code_that_does_not_run(run: Run, tmp_path: Path) -> None:
    for content, words in (
        ("def f(:", "SyntaxError"),
        ("import no_such_thing_at_all", "no_such_thing_at_all"),
        ("raise SystemExit", "SystemExit"),
    ):
        path = tmp_path / "bad.py"
        path.write_text(content)
        with pytest.raises(ModelError, match=words):
            run(f"{path}:f")


def test_export_an_operator_set_that_was_asked_for(run: Run) -> None:
    assert run("Small", opset=17, exporter="torchscript").opset == 17
    with pytest.raises(ModelError, match="operator set"):
        run("Small", opset=13, exporter="dynamo")


def bert(tmp_path: Path, **more: object) -> Path:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    config = {"model_type": "bert", "num_hidden_layers": 2, "vocab_size": 50, **sizes, **more}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("exporter", ["dynamo", "torchscript"])
def test_export_a_configuration_of_transformers(
    run: Run, tmp_path: Path, exporter: Exporter
) -> None:
    pytest.importorskip("transformers", reason=REASON)
    path = bert(tmp_path, architectures=["BertForMaskedLM"], auto_map={"AutoModel": "evil--e.M"})
    exported = run(f"transformers:{path}", exporter=exporter, settings={"num_hidden_layers": 1})
    assert exported.network == "BertForMaskedLM"
    assert exported.inputs["input_ids"] == ("batch", "sequence")
    layers = score(exported.paths[0], batch=1, dims={"sequence": 16}).layers
    macs = sum(layer.macs or 0 for layer in layers)
    # 16 tokens: q, k, v, output and the two of the MLP; two attention products; the head
    block = 16 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 16 * 16 * 32
    assert macs == block + 16 * (32 * 32 + 32 * 50)


def test_export_configurations_that_are_wrong(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason=REASON)
    for more, settings, words in (
        ({"model_type": "brt"}, {}, "use one of: .*bert"),
        ({"hidden_size": "large"}, {}, "raised"),
        ({"hidden_size": 30}, {}, "raised ValueError"),
        ({}, {"hiden_size": 3}, "hidden_size"),
    ):
        with pytest.raises((UsageError, ModelError), match=words):
            run(f"transformers:{bert(tmp_path, **more)}", settings=settings)


def test_export_torchvision_beside_any_torch(run: Run) -> None:
    pytest.importorskip("torch", reason=REASON)
    from mansard.estimator.export.network import need

    try:
        need("torchvision")
    except MansardError as error:
        pytest.skip(str(error))
    exported = run("torchvision:squeezenet1_1", is_static=True, settings={"num_classes": 10})
    assert exported.inputs == {"x": (1, 3, 224, 224)}
    assert exported.checks[0].greatest_relative < 1e-4
