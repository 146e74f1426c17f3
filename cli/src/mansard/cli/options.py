"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from mansard import api
from mansard.cli.console import note
from mansard.core.errors import UsageError
from mansard.core.precision import parse_precision
from mansard.core.records import Phase

BoardOption = Annotated[
    Path | None,
    typer.Option(
        help="Root folder of a board, such as a simulated one; this machine's by default.",
        readable=False,
    ),
]
PickOption = Annotated[
    int | None, typer.Option(min=1, help="Measure only so many modes, spread over all.")
]
KeptRunsOption = Annotated[Path, typer.Option(help="Folder that keeps the runs.", readable=False)]
ImageOption = Annotated[
    str | None, typer.Option(help="Image to measure in, by its name in the table.")
]
OfflineOption = Annotated[
    bool,
    typer.Option(
        "--offline", help="Download nothing: the image is there, or all it is built from."
    ),
]
ContainerEngineOption = Annotated[
    str | None, typer.Option(help="Address of the container engine, unix:///….")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Pull without asking.")]


def _tell_of_unused(name: str, option: str) -> Callable[[Path | None], Path | None]:
    """Says that a file of the present folder is not used: older versions used it unasked."""

    def tell(given: Path | None) -> Path | None:
        if given is None and Path(name).is_file():
            note(f"{name} of the present folder is not used: {option} {name} uses it")
        return given

    return tell


HostsFileOption = Annotated[
    Path | None,
    typer.Option(
        help="TOML file that names boards.",
        readable=False,
        callback=_tell_of_unused("hosts.toml", "--hosts-file"),
    ),
]
ImagesOption = Annotated[
    Path | None,
    typer.Option(
        "--images",
        help="TOML file that adds or changes images.",
        readable=False,
        callback=_tell_of_unused("images.toml", "--images"),
    ),
]
RunsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Folder of runs, or a dataset that was merged: a folder or a URL such as "
        "s3://bucket/boards. Repeatable; runs by default."
    ),
]
MixOption = Annotated[
    bool,
    typer.Option(
        "--mix",
        help="Take together runs of one device by different versions, and boards that are alike.",
    ),
]
ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(help="ONNX files, names of the zoo, or of networks that were measured."),
]
DimOption = Annotated[list[str] | None, typer.Option(help="Named dimensions: seq=128. Repeatable.")]
PhaseOption = Annotated[Phase, typer.Option(help="What the networks do.")]
DeviceOption = Annotated[str | None, typer.Option(help="Only devices whose name holds this.")]
CalibrateOption = Annotated[
    bool, typer.Option("--calibrate", help="Scale predictions to the measured networks.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]

Number = int | float | bool
# Python reads no integer of thousands of digits; no size has more than 19.
_SIZE = re.compile(r"0*[0-9]{1,19}")
Parsed = TypeVar("Parsed")


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """``name=size`` pairs, several with commas between them; raises UsageError."""
    pairs = [pair for text in texts for pair in re.split(r",(?=[^,=]+=)", text)]
    return _pairs("--dim", pairs, _size, "--dim batch=8,sequence=128")


def parse_trips(texts: Sequence[str]) -> dict[str, int]:
    """``loop=count`` pairs; raises UsageError."""
    return _pairs("--trip", texts, _size, "--trip decoder_loop=20")


def parse_values(texts: Sequence[str]) -> dict[str, Number | tuple[Number, ...]]:
    """``input=value`` pairs, a list with commas between its elements; raises UsageError."""
    return _pairs("--value", texts, _values, "--value sr=16000")


def parse_shapes(texts: Sequence[str]) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Shapes, and the element types of those that name one; raises UsageError.

    ``texts``: pairs such as ``input=1x3x224x224`` or ``boxes=100x4:float16``.
    """
    found = _pairs("--shape", texts, _typed_shape, "--shape image=1x3x224x224")
    types = {name: dtype for name, (_, dtype) in found.items() if dtype}
    return {name: shape for name, (shape, _) in found.items()}, types


def parse_sizes(option: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Whole numbers from 1 on, one or several with commas between them, each once."""
    sizes = [_size(part) for text in texts for part in text.split(",")]
    if any(size is None or size < 1 for size in sizes):
        raise UsageError(f"{option} {','.join(texts)!r} holds no size", fix="write 1 or 1,8,32")
    return tuple(dict.fromkeys(size for size in sizes if size is not None))


def parse_batches(texts: Sequence[str] | None) -> tuple[int, ...]:
    """``auto``, or sizes with commas between them; raises UsageError."""
    if not texts:
        return ()
    if [text.strip().lower() for text in texts] == ["auto"]:
        return api.AUTO_BATCHES
    return parse_sizes("--batch", texts)


def parse_precisions(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Precisions with commas between them, each once, by their usual names; raises UsageError."""
    parts = [part.strip() for text in texts or () for part in text.split(",")]
    return tuple(dict.fromkeys(parse_precision(part).name for part in parts))


def _pairs(
    option: str, texts: Sequence[str], parse: Callable[[str], Parsed | None], example: str
) -> dict[str, Parsed]:
    found: dict[str, Parsed] = {}
    for text in texts:
        name, value = _pair(option, text, parse, example)
        if found.setdefault(name, value) != value:
            raise UsageError(f"{option} gives {name!r} two values", fix="give it one")
    return found


def _pair(
    option: str, text: str, parse: Callable[[str], Parsed | None], example: str
) -> tuple[str, Parsed]:
    name, equals, value = text.rpartition("=")
    parsed = parse(value) if equals and name else None
    if parsed is None:
        raise UsageError(
            f"{option} {text!r} is not understood", fix=f"write name=value, for example {example}"
        )
    return name, parsed


def _size(text: str) -> int | None:
    return int(text) if _SIZE.fullmatch(text) else None


def _typed_shape(text: str) -> tuple[tuple[int, ...], str] | None:
    sizes, colon, dtype = text.partition(":")
    shape = _shape(sizes)
    return None if shape is None or (colon and not dtype) else (shape, dtype.lower())


def _shape(text: str) -> tuple[int, ...] | None:
    sizes = tuple(_size(part) for part in re.split("[x,]", text)) if text else ()
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


def _values(text: str) -> Number | tuple[Number, ...] | None:
    numbers = [_number(part) for part in text.split(",")]
    known = tuple(number for number in numbers if number is not None)
    if len(known) < len(numbers):
        return None
    return known if len(known) > 1 else known[0]


def _number(text: str) -> Number | None:
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", lowered):
        return int(lowered)
    if re.fullmatch(r"[+-]?[0-9]{1,18}\.[0-9]{0,18}(e[+-]?[0-9]{1,3})?", lowered):
        return float(lowered)
    return None
