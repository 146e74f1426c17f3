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
TensorRT 8.5 reads (8.6 for LayerNormalization). Weights are `ConstantOfShape` nodes, so files are
small; the batch is free.

With random weights (`mansard.estimator.zoo.weights`) their outputs equal those of torchvision 0.28
and 0.29, timm 1.0.31, transformers 5.23 and torch's GRU up to rounding. `lstm`, `unet`, `yolov8n`
and `yolov8s` have no counterpart there.

- Figures are for batch 1 and the dimensions shown. GMAC are published multiply-adds. Parameters are
  trained numbers, without running means and variances.
- Batch normalisation is not folded. Auxiliary classifiers and dropout are left out.
- Detectors end with decoded boxes and scores, before non-maximum suppression.
- The decoders (`gpt2`, `tinyllama_1_1b`) have a cache: inputs `past_key_values.N.key` and `.value`,
  outputs `present.N.key` and `.value`:

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

`convolutions` names HaX-CoNN's 25 single convolutions: 64 channels in and out, a bias, a ReLU and
one pixel of padding. They compare the reported memory use with the modelled traffic
([layers](../use/layers.md#memory-use)). `conv64_224x112_k1` to `conv64_224x112_k5` are 1 × 1 to
5 × 5 over 224 × 112; the others are over 112 × 112, 112 × 56, 56 × 56 and 56 × 28.

## Operators

`operators` names eight synthetic networks, `zoo_operators1` to `zoo_operators8`, each with 27
operators of different sizes in parallel: 72 convolutions, 24 depthwise convolutions, 48 products
with weights, 16 attentions, 16 reductions, 16 poolings, 8 layer normalisations, and 16
transpositions and concatenations in all; 7.2 GMAC at batch 1. `mansard bench` (`quick`, `full`) and
`mansard measure operators` time each layer. `--calibrate` predicts other networks from their
[shapes](../understand/calibration.md#by-the-shapes-of-operators). Reports do not list them.
"""

_OTHERS = """
## Networks that others scheduled

- **NN-Profiler**: all 23 networks of its `AvailableModels.txt`. Its layer counts also name an
  EfficientNet-B3, which is missing here.
- **HaX-CoNN**: Caffe files of AlexNet, DenseNet-121, GoogLeNet, Inception-v4, Inception-ResNet-v2,
  MobileNet, ResNet-18, 50, 101 and 152, VGG-16 and VGG-19. The zoo has a network of each name.
  - Its GoogLeNet has 5 × 5 convolutions and local response normalisation; torchvision's has 3 × 3
    and batch normalisation. The onnx package has the Caffe form, `light_inception_v1` (1.432 GMAC,
    6.999 M parameters).
  - The forms of its AlexNet and MobileNet are unknown. Caffe's AlexNet (`light_bvlc_alexnet` of the
    onnx package, 0.655 GMAC) has grouped convolutions and local response normalisation.
  - Its `inception` has a transition at layer 510: Inception-v4 has 596 Caffe layers, Inception-v3
    only 376.
  - Other Caffe files (LeNet, YOLOv3, Faster R-CNN, FaceNet, DetectNet, …) have no network here.
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
