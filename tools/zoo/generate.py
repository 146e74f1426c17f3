"""Write the shipped files again: ``python -m tools.zoo.generate [folder]``.

Without a folder the package's own ``models/`` is renewed. The same networks give
the same bytes, so that a difference in version control is a difference in a network.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx

from mansard.core.storage import files
from mansard.estimator import zoo
from tools.zoo.alexnet import alexnet
from tools.zoo.bert import bert_base, bert_large
from tools.zoo.builder import Graph
from tools.zoo.densenet import densenet121
from tools.zoo.efficientnet import efficientnet_b0, efficientnet_b1, efficientnet_b2
from tools.zoo.googlenet import googlenet
from tools.zoo.gpt2 import gpt2
from tools.zoo.gru import gru
from tools.zoo.inception import inception_v3
from tools.zoo.inception_resnet import inception_resnet_v2
from tools.zoo.inception_v4 import inception_v4
from tools.zoo.llama import tinyllama_1_1b
from tools.zoo.lstm import lstm
from tools.zoo.mnasnet import mnasnet0_5, mnasnet1_0
from tools.zoo.mobilenet import mobilenet_v1, mobilenet_v2
from tools.zoo.mobilenet_v3 import mobilenet_v3_large, mobilenet_v3_small
from tools.zoo.regnet import (
    regnet_x_3_2gf,
    regnet_x_400mf,
    regnet_x_800mf,
    regnet_y_1_6gf,
    regnet_y_400mf,
    regnet_y_800mf,
)
from tools.zoo.resnet import resnet18, resnet34, resnet50, resnet101, resnet152
from tools.zoo.serialise import to_bytes, to_model
from tools.zoo.shufflenet import shufflenet_v2_x0_5, shufflenet_v2_x1_0
from tools.zoo.squeezenet import squeezenet1_0, squeezenet1_1
from tools.zoo.ssd import ssdlite320_mobilenet_v3_large
from tools.zoo.swin import swin_t
from tools.zoo.unet import unet
from tools.zoo.vgg import vgg16, vgg19
from tools.zoo.vit import vit_b_16
from tools.zoo.yolo import yolov8n, yolov8s

_DRAWN: tuple[Callable[[], Graph], ...] = (
    alexnet, bert_base, bert_large, densenet121, efficientnet_b0, efficientnet_b1, efficientnet_b2,
    googlenet, gpt2, gru, inception_resnet_v2, inception_v3, inception_v4, lstm, mnasnet0_5,
    mnasnet1_0, mobilenet_v1, mobilenet_v2, mobilenet_v3_large, mobilenet_v3_small, regnet_x_3_2gf,
    regnet_x_400mf, regnet_x_800mf, regnet_y_1_6gf, regnet_y_400mf, regnet_y_800mf, resnet101,
    resnet152, resnet18, resnet34, resnet50, shufflenet_v2_x0_5, shufflenet_v2_x1_0, squeezenet1_0,
    squeezenet1_1, ssdlite320_mobilenet_v3_large, swin_t, tinyllama_1_1b, unet, vgg16, vgg19,
    vit_b_16, yolov8n, yolov8s,
)  # fmt: skip
NETWORKS: Mapping[str, Callable[[], Graph]] = {draw.__name__: draw for draw in _DRAWN}
"""What draws each network, by its name."""

MODELS = Path(zoo.__file__).parent / "models"


def build(name: str) -> onnx.ModelProto:
    """The network drawn anew."""
    return to_model(NETWORKS[name]())


def regenerate(folder: Path) -> tuple[Path, ...]:
    """Draw every network and write it into ``folder``; returns the paths."""
    files.make_folder(folder)
    paths = tuple(folder / f"{name}.onnx" for name in NETWORKS)
    for path in paths:
        files.write_atomic(path, to_bytes(build(path.stem)))
    return paths


if __name__ == "__main__":
    regenerate(Path(sys.argv[1]) if len(sys.argv) > 1 else MODELS)
