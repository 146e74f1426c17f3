"""What is in the zoo: one entry per network, with what others publish about it."""

from __future__ import annotations

from mansard.estimator.zoo.bert import bert_base, bert_large
from mansard.estimator.zoo.classifiers import CLASSIFIERS
from mansard.estimator.zoo.entries import Entry
from mansard.estimator.zoo.gpt2 import gpt2
from mansard.estimator.zoo.gru import gru
from mansard.estimator.zoo.llama import tinyllama_1_1b
from mansard.estimator.zoo.lstm import lstm
from mansard.estimator.zoo.ssd import ssdlite320_mobilenet_v3_large
from mansard.estimator.zoo.unet import unet
from mansard.estimator.zoo.yolo import yolov8n, yolov8s

__all__ = ["CATALOG", "Entry"]

_TOKENS = (("batch", 1), ("sequence", 128))
_WITH_PAST = (*_TOKENS, ("past_sequence", 0))
_READINGS = (("batch", 1), ("sequence", 50))
_PAST = (
    "input_ids: int64[batch, sequence], past_key_values.0 … {}, key and value: "
    "float32[batch, {}, past_sequence, 64]"
)
_TRANSFORMERS = (
    "parameters as torch counts them in transformers' {}; "
    "LayerNormalization nodes need TensorRT 8.6"
)
_ULTRALYTICS = (
    "Ultralytics' documentation: {} billion FLOPs at 640 pixels; its parameters are "
    "those before batch normalisation is folded, with the 16 fixed ones of the box decoder"
)
_NO_MACS = {"published_macs": "no figure is published for this input"}
_OUR_OWN = dict.fromkeys(
    ("published_macs", "published_parameters"), "our own network, published nowhere else"
)

_TEXT: tuple[Entry, ...] = (
    Entry(
        name="bert_base",
        title="BERT-base, uncased",
        task="encoder of text: states of all tokens and a pooled state",
        input="input_ids, attention_mask, token_type_ids: int64[batch, sequence]",
        dims=_TOKENS,
        published_macs=None,
        published_parameters=109_482_240,
        source=_TRANSFORMERS.format("BertModel with its default configuration"),
        draw=bert_base,
        unknown=_NO_MACS,
    ),
    Entry(
        name="bert_large",
        title="BERT-large, uncased",
        task="encoder of text: states of all tokens and a pooled state",
        input="input_ids, attention_mask, token_type_ids: int64[batch, sequence]",
        dims=_TOKENS,
        published_macs=None,
        published_parameters=335_141_888,
        source=_TRANSFORMERS.format("BertModel with 24 layers, 16 heads and 1024 features"),
        draw=bert_large,
        unknown=_NO_MACS,
    ),
    Entry(
        name="gpt2",
        title="GPT-2 small with its cache",
        task="scores of the next token at every place of a text",
        input=_PAST.format(11, 12),
        dims=_WITH_PAST,
        published_macs=None,
        published_parameters=124_439_808,
        source=_TRANSFORMERS.format("GPT2LMHeadModel with its default configuration"),
        draw=gpt2,
        unknown=_NO_MACS,
    ),
    Entry(
        name="tinyllama_1_1b",
        title="Llama in the size of TinyLlama-1.1B, with its cache",
        task="scores of the next token at every place of a text",
        input=_PAST.format(21, 4),
        dims=_WITH_PAST,
        published_macs=None,
        published_parameters=1_100_048_384,
        source="parameters as torch counts them in transformers' LlamaForCausalLM in the sizes of "
        "TinyLlama's paper (arXiv:2401.02385, 1.1 billion)",
        draw=tinyllama_1_1b,
        unknown=_NO_MACS,
    ),
)

_SENSORS: tuple[Entry, ...] = (
    Entry(
        name="gru",
        title="Two GRU layers",
        task="classification of sensor sequences, 10 classes",
        input="readings: float32[batch, sequence, 128]",
        dims=_READINGS,
        published_macs=None,
        published_parameters=None,
        source="our own: 128 readings a step, 256 hidden units",
        draw=gru,
        unknown=_OUR_OWN,
    ),
    Entry(
        name="lstm",
        title="Two bidirectional LSTM layers",
        task="classification of sensor sequences, 10 classes",
        input="readings: float32[batch, sequence, 128]",
        dims=_READINGS,
        published_macs=None,
        published_parameters=None,
        source="our own: 128 readings a step, 256 hidden units a direction",
        draw=lstm,
        unknown=_OUR_OWN,
    ),
)

_DETECTION: tuple[Entry, ...] = (
    Entry(
        name="ssdlite320_mobilenet_v3_large",
        title="SSDlite320 on MobileNetV3 large",
        task="object detection, 91 classes, before non-maximum suppression",
        input="image: float32[batch, 3, 320, 320]",
        dims=(("batch", 1),),
        published_macs=0.583e9,
        published_parameters=3_440_060,
        source="torchvision's documentation of its detectors (its GFLOPS are multiply-adds), "
        "weights COCO_V1",
        draw=ssdlite320_mobilenet_v3_large,
    ),
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
        unknown={**_NO_MACS, "published_parameters": "the paper states none"},
    ),
    Entry(
        name="yolov8n",
        title="Detector of the size of YOLOv8n",
        task="object detection, 80 classes, before non-maximum suppression",
        input="images: float32[batch, 3, 640, 640]",
        dims=(("batch", 1),),
        published_macs=4.35e9,
        published_parameters=3_157_200,
        source=_ULTRALYTICS.format("8.7"),
        draw=yolov8n,
    ),
    Entry(
        name="yolov8s",
        title="Detector of the size of YOLOv8s",
        task="object detection, 80 classes, before non-maximum suppression",
        input="images: float32[batch, 3, 640, 640]",
        dims=(("batch", 1),),
        published_macs=14.3e9,
        published_parameters=11_166_560,
        source=_ULTRALYTICS.format("28.6"),
        draw=yolov8s,
    ),
)

CATALOG: tuple[Entry, ...] = tuple(
    sorted((*CLASSIFIERS, *_TEXT, *_SENSORS, *_DETECTION), key=lambda entry: entry.name)
)
"""Every network, in the order of their names."""
