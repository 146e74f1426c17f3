"""Functional layers, nodes that work or move something, against NN-Profiler's counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import ModelScore
from mansard.estimator import is_functional, totals, zoo
from mansard.estimator.scoring import score as score_model
from reproductions.nn_profiler.modules import UNSEEN, functional_layers


def score(name: str) -> ModelScore:
    return score_model(zoo.read(name), name=name, batch=1)


@pytest.mark.parametrize(
    ("name", "ours", "no_modules", "calls_again", "theirs"),
    [
        # 17 modules are called as 49 ReLUs: 32 more here; 16 additions; its flattening.
        ("resnet50", 174, 16, 32, 127),
        ("mnasnet1_0", 151, 10, 0, 142),  # one dropout
        # Two dropouts; the pool of 6 × 6 to 6 × 6 and the flattening move nothing.
        ("alexnet", 18, 0, 0, 22),
        ("mobilenet_v2", 151, 10, 0, 142),
    ],
)
def test_layers_by_nn_profilers_definition(
    name: str, ours: int, no_modules: int, calls_again: int, theirs: int
) -> None:
    counts = functional_layers(name, score(name).layers)
    assert (counts.ours, counts.no_modules, counts.calls_again) == (ours, no_modules, calls_again)
    assert counts.theirs == theirs
    assert counts.ours == totals(score(name)).n_functional_layers
    assert functional_layers("another", score(name).layers).theirs is None


@pytest.mark.shared_data
def test_its_published_counts_are_these(shared_data: Path) -> None:
    path = "networks/Varatheepan+NN-Profiler__README_multi_dnn_orin_nano_sample.json"
    sample = msgspec.json.decode((shared_data / path).read_bytes())
    published = {name: each["cuda"]["functionalLayerCount"]
                 for name, each in sample["ModelInfo"].items()}  # fmt: skip
    ours = {name: functional_layers(name, score(name).layers).theirs for name in UNSEEN}
    assert published == ours


@pytest.mark.shared_data
def test_its_numbers_of_layers_are_modules_one_level_down(shared_data: Path) -> None:
    """``numLayers.json`` counts AlexNet's 21 modules: a layer here is no block of others."""
    path = "networks/Varatheepan+NN-Profiler__multi_network_stats__numLayers.json"
    theirs = msgspec.json.decode((shared_data / path).read_bytes())
    # All modules of AlexNet lie one level down: 21, and 22 with the flattening of its own.
    n_ours = totals(score("alexnet")).n_functional_layers
    assert theirs["alexnet"] + 1 - sum(UNSEEN["alexnet"].values()) == n_ours
    # MobileNetV2's 21 are its 19 blocks, a dropout and a linear layer; its leaves are 141.
    assert theirs["mobilenet_v2"] == 19 + 1 + 1


def test_layers_of_resnet50_by_operator() -> None:
    """53 convolutions and normalisations, 49 ReLUs, 16 additions, two pools, one Gemm."""
    found = score("resnet50")
    counts = Counter(layer.op_type for layer in found.layers if is_functional(layer))
    assert counts == {
        "Conv": 53,
        "BatchNormalization": 53,
        "Relu": 49,
        "Add": 16,
        "MaxPool": 1,
        "GlobalAveragePool": 1,
        "Gemm": 1,
    }
    # 53 + 53 + 49 + 16 + 1 + 1 + 1 = 174
    assert totals(found).n_functional_layers == 174
    assert totals(found).n_layers > 174
