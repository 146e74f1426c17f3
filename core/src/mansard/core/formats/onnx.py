"""Reads ONNX files without the package ``onnx``: names to files, nodes, labels, profiles.

A name is that of a model: also of a language model's file or folder, with tags behind it that say
how it is stored, as Ollama writes them: ``llama-3.1-8b:Q4_K_M``, ``model.gguf:kv=Q8_0``.

https://github.com/onnx/onnx/blob/main/onnx/onnx.proto has the numbers of the fields.

A label is the name by which what an engine ran is traced to a node of the network. Names of nodes
may be empty or doubled, an engine joins several where it fuses nodes, and writes its own in front
of those of a branch that it moves out of an If. A label survives that.

A profile has runs of nodes, and the kernels that they start on a GPU:
https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mansard.core.errors import InputError, ModelError
from mansard.core.formats.protobuf import BYTES, damaged, field_at, fields, messages

_SUFFIXES = (".onnx", ".gguf")
_TAGS = re.compile(r"((?::[A-Za-z][A-Za-z0-9_=-]*)+)$")


def split_tags(name: str) -> tuple[str, tuple[str, ...]]:
    """A model's name without its tags, and these; a file may have colons in its name."""
    match = _TAGS.search(name)
    if match is None or os.path.lexists(name):
        return name, ()
    return name[: match.start()], tuple(match[1].split(":")[1:])


def find_model_files(sources: Sequence[Path]) -> list[Path]:
    """The models among ``sources``, those in folders included, each once.

    A folder with ``config.json`` and without an ONNX file is a language model itself. Raises
    InputError for a folder without any model, or one that cannot be read.
    """
    files: dict[Path, None] = {}
    for source in sources:
        folder = Path(split_tags(str(source))[0])
        if not folder.is_dir():
            files[source] = None
            continue
        inside = sorted(_walk(folder))
        if not inside and (folder / "config.json").exists():
            inside = [source]
        if not inside:
            raise InputError(
                "holds no .onnx file, no .gguf file and no config.json",
                where=str(source),
                fix="give a folder of ONNX models, or of a language model",
            )
        files.update(dict.fromkeys(inside))
    return list(files)


def model_files(name: str) -> Sequence[Path] | None:
    """The files that a model's name means; None if it is not a path."""
    path = Path(name)
    return find_model_files([path]) if is_path(path) else None


def is_path(path: Path) -> bool:
    """Whether it is a file or a folder, there or not; else it is a name."""
    plain = Path(split_tags(str(path))[0])
    return plain.suffix.lower() in _SUFFIXES or len(plain.parts) != 1 or plain.exists()


def is_language_file(path: Path) -> bool:
    """Whether a path is that of a language model: GGUF, also without the suffix as Ollama keeps
    it, or a folder of Hugging Face's."""
    plain = Path(split_tags(str(path))[0])
    if plain.suffix.lower() in _SUFFIXES:
        return plain.suffix.lower() == ".gguf"
    try:
        if plain.is_dir():
            return (plain / "config.json").exists()
        if not plain.is_file():  # a pipe would wait for ever
            return False
        with plain.open("rb") as stream:
            return stream.read(4) == b"GGUF"
    except (OSError, ValueError):  # whoever reads it says so
        return False


def named(model: Path | str) -> Path | str:
    """What a person means: a path where it is one, else a name."""
    path = Path(model)
    return path if is_path(path) else str(model)


def model_name(path: Path) -> str:
    """How a model is called: its file without the suffix, or its folder; then its tags."""
    plain, tags = split_tags(str(path))
    known = Path(plain)
    name = known.stem if known.suffix.lower() in _SUFFIXES else known.resolve().name
    # A file's name may be any bytes; a record holds text.
    return ":".join((os.fsencode(name).decode("utf-8", "replace"), *tags))


def _walk(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        where = str(error.filename or folder)
        raise InputError(error.strerror or str(error), where=where, fix="check its permissions")

    for path, folders, names in os.walk(folder, onerror=refuse):
        folders.sort()
        yield from (Path(path, name) for name in names if name.lower().endswith(_SUFFIXES))


_SUFFIX = "_kernel_time"
_CPU = "CPUExecutionProvider"


class ProfileEvent(msgspec.Struct, frozen=True):
    """One event of the file; times in microseconds from the start of profiling."""

    cat: str
    name: str
    ts: float = 0.0
    dur: float = 0.0
    args: dict[str, Any] = {}


class NodeRun(NamedTuple):
    """One run of a node. On a GPU the event's time is that of the CPU, which queues the kernels."""

    event: ProfileEvent
    kernels_us: list[float]

    @property
    def name(self) -> str:
        """The node's name; an unnamed node is called by its operator and number, or not at all."""
        return self.event.name.removesuffix(_SUFFIX)

    @property
    def number(self) -> str:
        """The number of the node in the graph that the engine runs."""
        return str(self.event.args.get("node_index", ""))

    @property
    def op_type(self) -> str:
        """The node's operator."""
        return str(self.event.args.get("op_name", ""))

    @property
    def provider(self) -> str:
        """The execution provider that runs it; empty where the profile does not say."""
        return str(self.event.args.get("provider") or "")

    @property
    def is_on_gpu(self) -> bool:
        """Whether another provider than the CPU's runs it."""
        return self.provider not in {_CPU, ""}


def node_runs(events: Iterable[ProfileEvent]) -> list[NodeRun]:
    """The runs of nodes, each with the kernels that follow it in the file.

    https://github.com/microsoft/onnxruntime/pull/9567 puts them there.
    """
    runs: list[NodeRun] = []
    for event in events:
        if event.cat == "Node" and event.name.endswith(_SUFFIX):
            runs.append(NodeRun(event, []))
        elif event.cat == "Kernel" and runs:
            runs[-1].kernels_us.append(event.dur)
    return runs


_LABEL = re.compile(r"@(\d{1,9})@")


def label(index: int) -> str:
    """The name of the node that ``LayerScore.index`` calls ``index``."""
    return f"@{index}@"


def labels_of(name: str) -> tuple[int, ...]:
    """The indices of all labels in a name, without repeats."""
    return tuple(dict.fromkeys(int(digits) for digits in _LABEL.findall(name)))


def label_of(name: str) -> int | None:
    """The index of the last label in a name; None without a label."""
    labels = labels_of(name)
    return labels[-1] if labels else None


# A field's key: its number, times 8, and how its value is written.
_MODEL_GRAPH = 7 * 8 + BYTES
_GRAPH_NODE = 1 * 8 + BYTES
_INPUT, _OUTPUT, _NAME, _OP_TYPE, _ATTRIBUTE = (field * 8 + BYTES for field in (1, 2, 3, 4, 5))
_BODIES = (6 * 8 + BYTES, 11 * 8 + BYTES)  # of an attribute: one graph, or several


class GraphNode(NamedTuple):
    """One node. An omitted input has an empty name."""

    name: str
    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_nodes(path: Path) -> tuple[GraphNode, ...]:
    """Every node of the file, one before those in its bodies; raises ModelError and OSError."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view: Any = data  # what protobuf reads: bytes, or a mapped file as if it were bytes
        position, end, nodes = 0, len(data), []
        while position < end:
            key, start, position = field_at(view, position)
            if position > end:
                raise damaged()
            if key == _MODEL_GRAPH:
                nodes += list(_nodes(view, start, position))
        return tuple(nodes)


def _nodes(data: bytes, start: int, end: int) -> Iterator[GraphNode]:
    for _, node in messages(data, (_GRAPH_NODE,), start, end):
        bodies: list[bytes] = []
        texts: dict[int, list[str]] = {_INPUT: [], _OUTPUT: [], _NAME: [], _OP_TYPE: []}
        for key, content in fields(node):
            if key in texts:
                texts[key].append(_text(content))
            elif key == _ATTRIBUTE:
                bodies += [body for _, body in messages(content, _BODIES)]
        yield GraphNode(
            "".join(texts[_NAME][-1:]),
            "".join(texts[_OP_TYPE][-1:]),
            tuple(texts[_INPUT]),
            tuple(texts[_OUTPUT]),
        )
        for body in bodies:
            yield from _nodes(body, 0, len(body))


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ModelError("a name in the file is not UTF-8") from error
