"""Small models with functions of their own, in ONNX's text form."""

from __future__ import annotations

import onnx
from onnx import parser

from mansard.estimator.model import Model
from mansard.estimator.reading import read_model

CHOICE = (
    "r = If(c) <then_branch = t () => (float[2,3] o) { %s }, "
    "else_branch = e () => (float[2,3] o) { o = Neg(a) }>"
)

HEAD = '<ir_version: 10, opset_import: ["" : 17, "local" : 1]> g (float[2,3] x) => (float[2,3] y) '
LOCAL = '<domain: "local", opset_import: ["" : 17, "local" : 1]> '


def parsed(body: str, *functions: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEAD} {{ {body} }} " + " ".join(LOCAL + f for f in functions))


def read(body: str, *functions: str) -> Model:
    return read_model(parsed(body, *functions).SerializeToString())
