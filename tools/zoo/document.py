"""The table of all networks, made from the catalogue.

python -m tools.zoo.document > docs/reference/zoo.md
"""

from __future__ import annotations

import sys
from collections import defaultdict

from mansard.estimator import zoo
from mansard.estimator.zoo import Entry

_HEAD = """# The zoo

Made from the catalogue by `python -m tools.zoo.document`; do not edit.

`mansard models write FOLDER` writes these networks as ONNX files of operator set 17, which
TensorRT 8.5 reads (8.6 where there are LayerNormalization nodes). They have no trained weights: a
weight is a `ConstantOfShape` node, so that a file holds the shape alone and stays small, and every
tool can check, score and run it. The batch is free everywhere.

Random weights (`mansard.estimator.zoo.weights`) make them run for real. Compared once, with the
same random weights, with torchvision 0.28 and 0.29, timm 1.0.31, transformers 5.23 and torch's
GRU, their outputs differed by rounding alone; `lstm`, `unet` and the two of YOLOv8's sizes have no
counterpart there.

- Figures are for batch 1 and the dimensions shown. GMAC are published multiply-adds; parameters
  are what training changes, without the running means and variances of batch normalisation.
- Batch normalisation is left as nodes of its own, as in training.
- Classifiers that serve training only (GoogLeNet, Inception-v3) and dropout are left out.
- Detectors end with decoded boxes and scores, before the choice of boxes (non-maximum
  suppression), whose work depends on the data. The SSD-MobileNet is torchvision's SSDlite320 on
  MobileNetV3 large.
- The decoders (`gpt2`, `tinyllama_1_1b`) have a cache: inputs `past_key_values.N.key` and
  `.value`, outputs `present.N.key` and `.value`. The first pass over a text is
  `past_sequence` = 0; a step that makes one token is `sequence` = 1 after any past:

```sh
mansard models write . gpt2
mansard score gpt2.onnx --batch 1 --dim sequence=128 --dim past_sequence=0
mansard score gpt2.onnx --batch 1 --dim sequence=1 --dim past_sequence=127
```

## Networks

| network | what it is | inputs | dimensions | GMAC | parameters (M) | file (kB) |
|---|---|---|---|---|---|---|
"""


_CONVOLUTIONS = """
## Single convolutions

HaX-CoNN's 25 single convolutions, drawn when they are read: 64 channels in and out, a bias, a ReLU,
and one pixel of padding whatever the kernel, as in its artifact. `convolutions` names all of them:
`mansard measure convolutions`, `mansard models write FOLDER convolutions`. They compare the
memory's use that a board reports with the modelled traffic ([layers](../use/layers.md#memory-use)).
No bench has them. `conv64_224x112_k1` to `conv64_224x112_k5` are 64 filters of 1 × 1 to 5 × 5 over
224 × 112; the others are named alike, over 112 × 112, 112 × 56, 56 × 56 and 56 × 28.

## Operators

`operators` names eight networks, `zoo_operators1` to `zoo_operators8`, which are no networks that
anyone uses: each has 27 operators of different sizes side by side, each behind an elementwise one.
Together 72 convolutions, 24 depthwise ones, 48 products with weights, 16 attentions of two products
and a softmax, 16 reductions, 16 poolings, 8 layer normalisations, and 16 transpositions and
concatenations: 7.2 GMAC at batch 1, on inputs of at most 4 million elements. `mansard bench` with
profile `quick` or `full` times all of them layer by layer, and so does `mansard measure operators`.
`--calibrate` predicts other networks from their
[shapes](../understand/calibration.md#by-the-shapes-of-operators); reports do not list them among
networks.
"""

_OTHERS = """
## Networks that others scheduled

- **NN-Profiler**: all 23 networks of its `AvailableModels.txt`, which are torchvision's. Its
  recorded layer counts also name an EfficientNet-B3, which is not here.
- **HaX-CoNN** runs Caffe files of AlexNet, DenseNet-121, GoogLeNet, Inception-v4,
  Inception-ResNet-v2, MobileNet, ResNet-18, 50, 101 and 152, VGG-16 and VGG-19. The zoo has a
  network of each name.
  - Its GoogLeNet is not torchvision's: its profile has 5 × 5 convolutions and local response
    normalisation, where torchvision's has 3 × 3 and batch normalisation. The onnx package ships
    the Caffe form as `light_inception_v1` (1.432 GMAC, 6.999 M parameters).
  - Its files of AlexNet and MobileNet were not found, so their forms are not known. Caffe's
    AlexNet (`light_bvlc_alexnet` of the onnx package, 0.655 GMAC) has grouped convolutions and
    local response normalisation; torchvision's has neither.
  - Its `inception` has a transition at layer 510. Inception-v3 has too few layers for that: 94
    convolutions with normalisation, scale and ReLU are 376 Caffe layers; Inception-v4's 149 are
    596.
  - Caffe files that its README does not name (LeNet, YOLOv3, Faster R-CNN, FaceNet, DetectNet
    and others) have no network here.
"""


def zoo_document() -> str:
    """The Markdown document docs/reference/zoo.md: a row for each network, then the sources."""
    sources: dict[str, list[str]] = defaultdict(list)
    for entry in zoo.CATALOG:
        sources[entry.source].append(entry.name)
    rows = "".join(_row(entry) for entry in zoo.CATALOG)
    notes = "".join(f"- {', '.join(names)}: {source}.\n" for source, names in sources.items())
    return f"{_HEAD}{rows}{_CONVOLUTIONS}{_OTHERS}\n## Where the figures come from\n\n{notes}"


def _row(entry: Entry) -> str:
    macs, parameters = entry.published_macs, entry.published_parameters
    cells = (
        entry.name,
        entry.title,
        f"`{entry.input}`",
        ", ".join(f"{name} {size}" for name, size in entry.dims),
        "–" if macs is None else f"{macs / 1e9:g}",
        "–" if parameters is None else f"{parameters / 1e6:.4g}",
        f"{len(zoo.read(entry.name)) / 1e3:.0f}",
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.stdout.write(zoo_document())
