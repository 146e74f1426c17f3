"""The loop of docs/use/daily-loop.md: measure, change, compare, find the layer, mend it.

The board is simulated, with a stand-in for its GPU and for trtexec. What a layer of each type takes
is what the stand-in is told; all else is found by the commands.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mansard.simulator import create_board, running
from tests.cli.in_process import mansard
from tests.inference import stand_in

pytestmark = pytest.mark.usefixtures("before_others")

ROOT = Path(__file__).resolve().parents[2]
# Milliseconds by the engine's type of layer.
TAKES_MS = {"CaskConvolution": 0.12, "Softplus": 0.9, "GlobalAveragePool": 0.02, "": 0.05}


def commands() -> list[list[str]]:
    """The commands of the page, in their order."""
    text = (ROOT / "docs/use/daily-loop.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ mansard (.*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def write_network(path: Path, activation: str) -> None:
    """Four convolutions, the first one before Mish, x · tanh(softplus(x)), or Relu."""
    random, nodes, weights = np.random.default_rng(0), [], []
    tensor, channels = "image", 3
    for number in range(4):
        kernel = random.normal(size=(16, channels, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"conv{number}.weight"))
        nodes.append(("Conv", [tensor, weights[-1].name], f"conv{number}"))
        if number == 0 and activation == "mish":
            nodes.append(("Softplus", ["conv0"], "softplus"))
            nodes.append(("Tanh", ["softplus"], "tanh"))
            nodes.append(("Mul", ["conv0", "tanh"], "active0"))
        else:
            nodes.append(("Relu", [f"conv{number}"], f"active{number}"))
        tensor, channels = f"active{number}", 16
    nodes.append(("GlobalAveragePool", [tensor], "y"))
    made = [
        helper.make_node(kind, reads, [out], name=f"/{out}/{kind}") for kind, reads, out in nodes
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 40, 40))
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 16, 1, 1))
    graph = helper.make_graph(made, "net", [image], [output], weights)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> list[CompletedProcess[str]]:
    """What each command of the page did; the network changes where the page says so."""
    folder = tmp_path_factory.mktemp("loop")
    (folder / "bin").mkdir()
    stand_in.put_program(folder / "bin")
    board = create_board("agx-orin", folder)
    place = ["--board", str(board), "--local", "--profile", "brief"]
    write_network(folder / "net.onnx", "relu")
    networks = iter(("relu", "mish", "relu"))
    results = []
    with (
        pytest.MonkeyPatch.context() as patch,
        stand_in.played("10.3.0", device="orin", STAND_IN_LAYER_MS=json.dumps(TAKES_MS)),
        running(board),
    ):
        patch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
        for words in commands():
            if words[0] == "measure":
                write_network(folder / "net.onnx", next(networks))
            measures = words[0] in {"bench", "measure"}
            results.append(mansard(*words, *(place if measures else ()), cwd=folder))
    return results


def test_the_gate_stops_the_change_and_lets_the_mended_one_pass(
    done: list[CompletedProcess[str]],
) -> None:
    names = [result.args[result.args[0] == "models"] for result in done]
    assert names == ["bench", *("measure", "compare") * 2, "layers", "measure", "compare"]
    # bench, measure, --save, measure; 3: worse; the layers; measure; 0: within what is allowed.
    assert [result.returncode for result in done] == [0, 0, 0, 0, 3, 0, 0, 0], done[4].stderr
    # 4 · 0.12 + 0.02 = 0.5 ms; with Softplus, Tanh and Mul 0.5 + 0.9 + 2 · 0.05 = 1.5 ms.
    assert re.search(r"0\.500\d* ± 0\.\d+", done[1].stdout)
    assert re.search(r"1\.500 ± 0\.\d+", done[3].stdout)
    assert re.search(r"p50 \+5%.*worse", done[4].stdout, re.DOTALL)


def test_the_layer_that_was_changed_is_the_first_of_the_layers(
    done: list[CompletedProcess[str]],
) -> None:
    title, table = re.split("─{3,}.*\n", done[5].stdout, maxsplit=1)
    assert "label mish by gap" in " ".join(title.split())
    assert table.startswith("softplus/Softplus")
    # 0.9 of 1.5 ms, and all of them are joined to nodes.
    assert "60 %" in table.splitlines()[0].replace("\N{NO-BREAK SPACE}", " ")
    assert re.search(r"100\s%\s+of\s+the\s+time\s+is\s+joined\s+to\s+nodes", table)
