"""What is in the zoo: one entry per network, with what others publish about it."""

from __future__ import annotations

from collections.abc import Callable

from mansard.core.records import Record
from mansard.estimator.zoo.alexnet import alexnet
from mansard.estimator.zoo.bert import bert_base
from mansard.estimator.zoo.builder import Graph
from mansard.estimator.zoo.densenet import densenet121
from mansard.estimator.zoo.efficientnet import efficientnet_b0
from mansard.estimator.zoo.googlenet import googlenet
from mansard.estimator.zoo.gpt2 import gpt2
from mansard.estimator.zoo.lstm import lstm
from mansard.estimator.zoo.mobilenet import mobilenet_v2, mobilenet_v3_large
from mansard.estimator.zoo.resnet import resnet18, resnet50
from mansard.estimator.zoo.squeezenet import squeezenet1_1
from mansard.estimator.zoo.unet import unet
from mansard.estimator.zoo.vgg import vgg16
from mansard.estimator.zoo.vit import vit_b_16
from mansard.estimator.zoo.yolo import yolov8n


class Entry(Record, frozen=True, kw_only=True):
    """One network of the zoo.

    ``dims`` are the free dimensions with the values to use where the user names
    none. ``published_macs`` is for these values, at the precision it is published
    with; ``published_parameters`` counts what training changes, so running means
    and variances are not in it.
    """

    name: str
    title: str
    task: str
    input: str
    dims: tuple[tuple[str, int], ...]
    published_macs: float | None
    published_parameters: int | None
    source: str
    draw: Callable[[], Graph]


_TOKENS = (("batch", 1), ("sequence", 128))
_TORCHVISION = (
    "torchvision's model documentation (its GFLOPS are multiply-adds), weights IMAGENET1K_V1; "
    "batch normalisation kept as nodes of its own, as in training"
)
_TRANSFORMERS = (
    "parameters as torch counts them in transformers' {} with its default configuration; "
    "LayerNormalization nodes need TensorRT 8.6"
)
_NO_MACS = "no figure is published for this input"
_OUR_OWN = "our own network, published nowhere else"


def _classifier(
    name: str,
    title: str,
    published_macs: float,
    published_parameters: int,
    draw: Callable[[], Graph],
    *,
    note: str = "",
) -> Entry:
    return Entry(
        name=name,
        title=title,
        task="image classification, 1000 classes",
        input="image: float32[batch, 3, 224, 224]",
        dims=(("batch", 1),),
        published_macs=published_macs,
        published_parameters=published_parameters,
        source=_TORCHVISION + note,
        draw=draw,
    )


CATALOG: tuple[Entry, ...] = (
    _classifier("alexnet", "AlexNet", 0.71e9, 61_100_840, alexnet),
    Entry(
        name="bert_base",
        title="BERT-base, uncased",
        task="encoder of text: states of all tokens and a pooled state",
        input="input_ids, attention_mask, token_type_ids: int64[batch, sequence]",
        dims=_TOKENS,
        published_macs=None,
        published_parameters=109_482_240,
        source=_TRANSFORMERS.format("BertModel"),
        draw=bert_base,
        unknown={"published_macs": _NO_MACS},
    ),
    _classifier("densenet121", "DenseNet-121", 2.83e9, 7_978_856, densenet121),
    _classifier("efficientnet_b0", "EfficientNet-B0", 0.39e9, 5_288_548, efficientnet_b0),
    _classifier("googlenet", "GoogLeNet", 1.50e9, 6_624_904, googlenet),
    Entry(
        name="gpt2",
        title="GPT-2 small, prefill",
        task="scores of the next token at every place of a text",
        input="input_ids: int64[batch, sequence]",
        dims=_TOKENS,
        published_macs=None,
        published_parameters=124_439_808,
        source=_TRANSFORMERS.format("GPT2LMHeadModel"),
        draw=gpt2,
        unknown={"published_macs": _NO_MACS},
    ),
    Entry(
        name="lstm",
        title="Two bidirectional LSTM layers",
        task="classification of sensor sequences, 10 classes",
        input="readings: float32[batch, sequence, 128]",
        dims=(("batch", 1), ("sequence", 50)),
        published_macs=None,
        published_parameters=None,
        source="our own: 128 readings a step, 256 hidden units a direction",
        draw=lstm,
        unknown={"published_macs": _OUR_OWN, "published_parameters": _OUR_OWN},
    ),
    _classifier("mobilenet_v2", "MobileNetV2", 0.30e9, 3_504_872, mobilenet_v2),
    _classifier("mobilenet_v3_large", "MobileNetV3 large", 0.22e9, 5_483_032, mobilenet_v3_large),
    _classifier("resnet18", "ResNet-18", 1.81e9, 11_689_512, resnet18),
    _classifier("resnet50", "ResNet-50", 4.09e9, 25_557_032, resnet50),
    _classifier("squeezenet1_1", "SqueezeNet 1.1", 0.35e9, 1_235_496, squeezenet1_1),
    Entry(
        name="unet",
        title="U-Net, padded, with batch normalisation",
        task="segmentation, 2 classes",
        input="image: float32[batch, 3, 256, 256]",
        dims=(("batch", 1),),
        published_macs=None,
        published_parameters=None,
        source="the paper's widths (arXiv:1505.04597) in today's usual form",
        draw=unet,
        unknown={"published_macs": _NO_MACS, "published_parameters": "the paper states none"},
    ),
    _classifier("vgg16", "VGG-16", 15.47e9, 138_357_544, vgg16),
    _classifier(
        "vit_b_16",
        "Vision Transformer B/16",
        17.56e9,
        86_567_656,
        vit_b_16,
        note="; LayerNormalization nodes need TensorRT 8.6",
    ),
    Entry(
        name="yolov8n",
        title="Detector of the size of YOLOv8n",
        task="object detection, 80 classes, before non-maximum suppression",
        input="images: float32[batch, 3, 640, 640]",
        dims=(("batch", 1),),
        published_macs=4.35e9,
        published_parameters=3_157_200,
        source="Ultralytics' documentation: 8.7 billion FLOPs at 640 pixels; its parameters are "
        "those before batch normalisation is folded, with the 16 fixed ones of the box decoder",
        draw=yolov8n,
    ),
)
"""Every network, in the order of their names."""
