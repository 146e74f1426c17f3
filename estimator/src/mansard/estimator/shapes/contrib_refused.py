"""Operators that cannot be scored, each with its reason."""

from __future__ import annotations

from types import MappingProxyType

from mansard.estimator.shapes.contrib_parts import MICROSOFT
from mansard.estimator.shapes.registry import rule
from mansard.estimator.tensors import Node

_GENERATES = (
    "it generates until the data ends it, and runs graphs of its own meanwhile: score the "
    "decoder graph inside it as a file of its own, for prefill and for one step"
)
_COMPILED = "it holds a program that was compiled for one device: score the model it was made from"

# (domain, operator) -> why its work and shapes cannot be told from the file
REFUSED = MappingProxyType(
    {
        (MICROSOFT, "BeamSearch"): _GENERATES,
        (MICROSOFT, "GreedySearch"): _GENERATES,
        (MICROSOFT, "Sampling"): _GENERATES,
        (MICROSOFT, "WhisperBeamSearch"): _GENERATES,
        (MICROSOFT, "EPContext"): _COMPILED,
        (MICROSOFT, "Snpe"): _COMPILED,
        ("org.pytorch.aten", "ATen"): (
            "it stands for a call of PyTorch that the exporter could not translate: export again "
            "with operators of ONNX"
        ),
    }
)


def _refuse(node: Node) -> str:
    return f"{node.label}: {REFUSED[node.domain, node.op_type]}"


for _domain, _op_type in REFUSED:
    rule(_op_type, domain=_domain)(_refuse)
