"""Small models in ONNX's text form, for the tests of what prepares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import parser

from mansard.inference.inputs import make_inputs
from mansard.inference.preparing import PreparedNetwork, prepare, write

SEED = 7
HEAD = '<ir_version: 8, opset_import: ["" : 17, "local" : 1, "com.microsoft" : 1]> g '


def parsed(signature: str, body: str, stored: str = "", functions: str = "") -> onnx.ModelProto:
    text = f"{HEAD}{signature} {f'<{stored}>' if stored else ''} {{ {body} }} {functions}"
    return parser.parse_model(text)


def stored_at(path: Path, signature: str, body: str, stored: str = "", functions: str = "") -> Path:
    path.write_bytes(parsed(signature, body, stored, functions).SerializeToString())
    return path


def prepared(source: Path | str, folder: Path, **wishes: Any) -> PreparedNetwork:
    """The network, and its files in ``folder``."""
    network = prepare(source, seed=SEED, **wishes)
    write(network, folder)
    return network


def run(network: PreparedNetwork, folder: Path) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        str(folder / network.file), options, providers=["CPUExecutionProvider"]
    )
    feed = make_inputs(network.trial(engine="ort", provider="cpu"), folder, SEED)
    return [np.asarray(output) for output in session.run(None, feed)]
