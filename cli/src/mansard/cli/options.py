"""Options that several commands share, and how their values are read.

A file that a command is asked to write over stays where it holds something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from mansard.api import command_line
from mansard.core.errors import UsageError
from mansard.core.precision import parse_precision
from mansard.core.records import Phase
from mansard.core.units import QuantityKind, parse_quantity, parse_within

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace a file that Mansard did not write.")
]

REPORT = "report.html"  # in the first folder of runs

_HEAD_BYTES = 4096
# How each form begins: pages name their generator, documents their schema, tables our columns.
_OURS = re.compile(
    rb'\s*<!doctype html>.*<meta name="generator" content="Mansard |'
    rb'\s*\{\s*"schema"\s*:\s*"(?:mansard/|baseline")|'
    rb"(?:score_id,model,|threshold,share,accuracy_least,|log,time,time_s,)|"
    # Of figures: values, pictures and tables; a caption and a PDF say it at their end.
    rb"part,(?:name,level,precision,|name,bound_by,intensity|accelerator,network,group,start_ms)|"
    rb"network,precision,batch,mode,gpu_clock_mhz,|quantity,name,value,low,high,unit,|"
    rb"<svg[^>]*><!-- Drawn by Mansard |% Drawn by Mansard |"
    rb"\x89PNG.{33}tEXtSoftware\x00Drawn by Mansard ",
    re.DOTALL,
)
_TAIL_BYTES = 200
_SIGNED = re.compile(rb"\n(?:% )?Drawn by Mansard [^\n]{1,60}\n\Z")


def check_outputs(paths: Iterable[Path | None], *, force: bool) -> None:
    """Raises UsageError where a file holds something that Mansard did not write.

    An empty file holds nothing; what is no regular file is the business of who writes it.
    """
    for path in paths:
        if force or path is None or not path.is_file():
            continue
        try:
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
                stream.seek(max(0, path.stat().st_size - _TAIL_BYTES))
                tail = stream.read(_TAIL_BYTES)
        except OSError:
            head = tail = b"?"
        if head and not (_OURS.match(head) or _SIGNED.search(tail)):
            raise UsageError(
                "already exists and was not written by Mansard",
                where=str(path),
                fix="give another name, or --force to replace it",
            )


# A board of the environment is left alone beside one of the first; in hi without the second.
_INSTEAD_OF_BOARD, _FOR_BOARD = ("host", "config"), ("local", "offload")


def _board_unless_contradicted(
    context: typer.Context, parameter: typer.CallbackParam, board: Path | None
) -> Path | None:
    """What the words say counts more than the environment: they come first in ``params``."""
    source = context.get_parameter_source(parameter.name or "")
    if source is None or source.name != "ENVIRONMENT":
        return board
    given = context.params
    needs = context.info_name == "tune" and not any(map(given.get, _FOR_BOARD))
    return None if needs or any(map(given.get, _INSTEAD_OF_BOARD)) else board


BoardOption = Annotated[
    Path | None,
    typer.Option(
        help="Root folder of a board, for example a simulated one; MANSARD_BOARD or this "
        "machine by default.",
        readable=False,
        envvar="MANSARD_BOARD",
        show_envvar=False,
        callback=_board_unless_contradicted,
    ),
]
ModeOption = Annotated[
    str | None,
    typer.Option(
        help="Power modes: 15W, MAXN, all, 'gpu=612MHz,cores=4' or a TOML grid; 2c on a "
        "plain machine. The current mode by default."
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print every write; change nothing.")]
LocalOption = Annotated[
    bool, typer.Option("--local", help="Measure in this process, without a container.")
]
HostOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Board to measure: user@board, unix:///…/docker.sock or a name in "
        "hosts.toml. Repeatable, or comma-separated."
    ),
]
OneEngineOption = Annotated[
    bool,
    typer.Option(
        "--one-engine",
        help="Build a network's stages on the GPU and a DLA as one engine.",
    ),
]
MOST_SEED = 2**63 - 1  # of what NumPy's and Python's generators take alike
LabelOption = Annotated[
    str,
    typer.Option(
        metavar="LABEL",
        help="Build or commit that is measured. Another label is another run.",
    ),
]
AgainOption = Annotated[
    bool,
    typer.Option("--again", help="Measure again; earlier runs are kept."),
]
PickOption = Annotated[
    int | None,
    typer.Option(min=1, max=100_000, help="Measure N modes, evenly spread."),
]
# How networks are run.
BatchSizesOption = Annotated[
    list[str] | None,
    typer.Option(help="Batch sizes: 1,8,32. Repeatable; by default the file's, else 1."),
]
PrecisionsOption = Annotated[
    list[str] | None,
    typer.Option(help="Precisions: fp32, fp16, int8. Repeatable; the file's by default."),
]
PromptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--prompt",
        help="Language models: prompt tokens: 512, 2k. Repeatable; 512 by default.",
    ),
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        help="Language models: cached tokens in decode: 512, 4k. Repeatable; 512 by default.",
    ),
]
ProviderOption = Annotated[
    Literal["cpu", "cuda", "tensorrt"] | None,
    typer.Option(help="Execution provider; the fastest installed one by default."),
]
InputsOption = Annotated[
    Path | None,
    typer.Option(help="Input arrays, .npz; generated by default.", readable=False),
]
KeptRunsOption = Annotated[Path, typer.Option(help="Folder of runs.", readable=False)]
ImageOption = Annotated[str | None, typer.Option(help="Container image, by its name in the table.")]
OfflineOption = Annotated[
    bool,
    typer.Option("--offline", help="Download nothing."),
]
ContainerEngineOption = Annotated[
    str | None, typer.Option(help="Address of the container engine: unix:///….")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Download images without asking.")]


HostsFileOption = Annotated[Path | None, typer.Option(help="TOML file of boards.", readable=False)]
ImagesOption = Annotated[
    Path | None,
    typer.Option("--images", help="TOML file with more images.", readable=False),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Dask scheduler: tcp://host:8786. Needs mansard[dask].",
    ),
]
RunsOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Folder of runs, or folder or URL of a merged dataset: s3://bucket/boards. "
        "Repeatable; runs by default."
    ),
]
AllowMixedOption = Annotated[
    bool,
    typer.Option(
        "--allow-mixed",
        help="Combine runs across versions and identical boards.",
    ),
]
ModelsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="ONNX or GGUF files, Hugging Face folders, or names of shipped networks, "
        "language models or measured networks."
    ),
]
DimOption = Annotated[
    list[str] | None, typer.Option(help="Size of a named dimension: seq=128. Repeatable.")
]
PhaseOption = Annotated[Phase, typer.Option(help="Phase of the networks.")]
DeviceOption = Annotated[str | None, typer.Option(help="Only devices whose name contains DEVICE.")]
ProbabilityOption = Annotated[
    float, typer.Option(min=0, max=1, help="Required probability of meeting each limit.")
]
CalibrateOption = Annotated[
    bool,
    typer.Option(
        "--calibrate",
        help="Scale predictions to measured networks, and transfer times recorded on other boards.",
    ),
]
AllOption = Annotated[bool, typer.Option("--all", help="Print every table and row.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]

Number = int | float | bool
# Python reads no integer of thousands of digits; no size has more than 19.
_SIZE = re.compile(r"0*[0-9]{1,19}")
Parsed = TypeVar("Parsed")


def parse_duration(option: str, text: str) -> float:
    """Seconds from ``100ms``, ``2s``, ``5min``, ``1h`` or a bare number; raises UsageError."""
    try:
        seconds = parse_quantity(option, text, "time", bare="s")
    except UsageError:
        seconds = 0.0
    if seconds < 1e-3:
        raise UsageError(f"{option} {text!r} is not a duration", fix="write 100ms, 2s, 5min or 1h")
    return seconds


def quantity(
    option: str, kind: QuantityKind, *, bare: str, ends: tuple[str, str]
) -> Callable[[str], float]:
    """The parser of an option that takes a quantity, or a number of ``bare``."""
    return partial(parse_within, option, kind=kind, bare=bare, ends=ends)


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
    shapes = _pairs("--shape", texts, _typed_shape, "--shape image=1x3x224x224")
    types = {name: dtype for name, (_, dtype) in shapes.items() if dtype}
    return {name: shape for name, (shape, _) in shapes.items()}, types


def parse_sizes(option: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Whole numbers from 1 on, one or several with commas between them, each once."""
    sizes = [_size(part) for text in texts for part in text.split(",")]
    if any(size is None or size < 1 for size in sizes):
        raise UsageError(f"{option} {','.join(texts)!r} holds no size", fix="write 1 or 1,8,32")
    return tuple(dict.fromkeys(size for size in sizes if size is not None))


_TOKENS = re.compile(r"([1-9][0-9]{0,8})(k?)")


def parse_tokens(option: str, texts: list[str] | None) -> tuple[int, ...]:
    """Numbers of tokens, ``512,4k``: k is 1024. Raises UsageError."""
    numbers: list[int] = []
    words = (word.strip() for text in texts or () for word in text.split(","))
    for text in words:
        match = _TOKENS.fullmatch(text.casefold())
        if match is None:
            raise UsageError(f"{option} {text!r} is not a number of tokens", fix=f"{option} 512,4k")
        numbers.append(int(match[1]) * (1024 if match[2] else 1))
    return tuple(dict.fromkeys(numbers))


def parse_batches(texts: Sequence[str] | None) -> tuple[int, ...]:
    """``auto``, or sizes with commas between them; raises UsageError."""
    if not texts:
        return ()
    if [text.strip().lower() for text in texts] == ["auto"]:
        return command_line.AUTO_BATCHES
    return parse_sizes("--batch", texts)


def parse_precisions(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Precisions with commas between them, each once, by their usual names; raises UsageError."""
    parts = [part.strip() for text in texts or () for part in text.split(",")]
    return tuple(dict.fromkeys(parse_precision(part).name for part in parts))


def _pairs(
    option: str, texts: Sequence[str], parse: Callable[[str], Parsed | None], example: str
) -> dict[str, Parsed]:
    pairs: dict[str, Parsed] = {}
    for text in texts:
        name, value = _pair(option, text, parse, example)
        if pairs.setdefault(name, value) != value:
            raise UsageError(f"{option} gives {name!r} two values", fix="give it one")
    return pairs


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
