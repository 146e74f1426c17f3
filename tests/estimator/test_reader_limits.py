"""Files made to take for ever, or all the memory: each ends in one line, early."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import encode
from mansard.estimator.reading import read_model, read_source
from mansard.estimator.reading.limits import (
    MAX_FIELDS,
    MAX_FUNCTIONS,
    MAX_KEPT_BYTES,
    MAX_LONG_NUMBERS,
    MAX_NODES,
    MAX_NUMBERS,
    MAX_READ_BYTES,
    MAX_STORED,
    MAX_TEXT_BYTES,
)
from mansard.estimator.reading.skeleton import SHORT_BYTES

NODE, STORED, INPUT = 1, 5, 11  # fields of a graph
VERSION = b"\x08\x08"


def field(number: int, content: bytes) -> bytes:
    return encode(8 * number + 2) + encode(len(content)) + content


def model(graph: bytes) -> bytes:
    return VERSION + field(7, graph)


def refused(data: bytes | Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(read_source(data)[0])
    return str(caught.value)


def nodes_with(attribute: bytes) -> bytes:
    return model(field(NODE, field(5, attribute)))


LOTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "nodes": (lambda: model(field(NODE, b"") * (MAX_NODES + 1)), f"more than {MAX_NODES} nodes"),
    "stored tensors": (
        lambda: model(field(STORED, b"") * (MAX_STORED + 1)),
        f"more than {MAX_STORED} stored tensors",
    ),
    "functions": (
        lambda: (
            model(field(NODE, b""))
            + b"".join(field(25, field(1, b"%d" % i)) for i in range(MAX_FUNCTIONS + 1))
        ),
        f"more than {MAX_FUNCTIONS} functions",
    ),
    "packed numbers": (
        lambda: nodes_with(field(8, b"\x01" * (MAX_LONG_NUMBERS + 1))),
        f"more than {MAX_LONG_NUMBERS} numbers",
    ),
    "single numbers": (
        lambda: nodes_with(b"\x40\x01" * (MAX_LONG_NUMBERS + 1)),
        f"more than {MAX_LONG_NUMBERS} numbers",
    ),
    "numbers in short lists": (
        lambda: model(
            field(NODE, field(5, field(8, b"\x01" * 60_000))) * (MAX_NUMBERS // 60_000 + 1)
        ),
        f"more than {MAX_NUMBERS} numbers",
    ),
    "names": (
        lambda: model(field(NODE, field(1, b"")) + field(NODE, b"\x0a\x00" * (MAX_FIELDS + 1))),
        f"larger than {MAX_FIELDS} fields",
    ),
    "long names": (
        lambda: model(field(NODE, field(3, b"x" * 4000)) * (MAX_READ_BYTES // 4000)),
        "its nodes and names take more than",
    ),
    "a long name": (
        lambda: model(field(NODE, field(1, b"x" * (MAX_TEXT_BYTES + 1)))),
        f"a name in it takes {MAX_TEXT_BYTES + 1} bytes",
    ),
    "a declaration of many dimensions": (
        lambda: model(field(INPUT, field(2, field(1, field(2, b"\x0a\x00" * MAX_TEXT_BYTES))))),
        "a name in it takes",
    ),
    "the graph again and again": (
        lambda: VERSION + b"\x3a\x00" * (MAX_FIELDS + 1),
        f"larger than {MAX_FIELDS} fields",
    ),
    "notes": (
        lambda: model(field(13, bytes(SHORT_BYTES)) * (MAX_KEPT_BYTES // SHORT_BYTES + 1)),
        f"or {MAX_KEPT_BYTES >> 20} MiB",
    ),
}


@pytest.mark.parametrize("name", LOTS)
def test_too_much_of_something(name: str) -> None:
    make, message = LOTS[name]
    assert message in refused(make())


@pytest.mark.parametrize("pad", [0, SHORT_BYTES + 1])
def test_graphs_nested_without_end(pad: int) -> None:
    # a graph (6) in an attribute (5) of a node (1) of a graph …; long ones are seen early
    graph = field(10, bytes(pad))
    for _ in range(200):
        graph = field(NODE, field(5, field(6, graph) + b"\xa0\x01\x05"))
    assert "nested deeper than" in refused(model(graph))


def test_types_nested_without_end() -> None:
    kind = b""
    for _ in range(1000):
        kind = field(4, field(1, kind))  # a sequence of sequences …
    data = model(field(NODE, b"") + field(INPUT, field(2, kind)))
    found = read_model(read_source(data)[0]).inputs[0]
    assert (found.kind, found.dtype) == ("sequence", None)


def test_groups_nested_without_end() -> None:
    assert "damaged" in refused(model(b"\x1b" * 10_000))
    assert "damaged" in refused(model(b"\x1b" * 10_000 + b"\x1c" * 10_000))


def test_gigabytes_of_zeros_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "zeros.onnx"
    with path.open("wb") as stream:
        stream.truncate(3 << 30)
    assert "damaged at byte 0" in refused(path)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff" * 12])
def test_lengths_that_cannot_be(length: bytes) -> None:
    assert "damaged" in refused(VERSION + b"\x3a" + length)
    assert "cut short" in refused(VERSION + b"\x3a\x14\x0a" + length + b"\x0a\x00")


CHECK = """
import sys
from pathlib import Path
from mansard.core.errors import ModelError
from mansard.estimator.reading import read_model, read_source
try:
    read_model(read_source(Path(sys.argv[1]))[0])
except ModelError:
    pass
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""

WORST: dict[str, Callable[[], bytes]] = {
    "nodes": lambda: model(b"".join(field(NODE, field(2, b"%d" % i)) for i in range(MAX_NODES))),
    "notes": lambda: model(field(13, bytes(4090)) * (MAX_KEPT_BYTES // 4100)),
    "names": lambda: model(field(NODE, b"\x0a\x00" * 2000) * (MAX_READ_BYTES // 4003)),
    "stored": lambda: model(
        b"".join(field(STORED, field(8, b"%d" % i) + b"\x10\x01") for i in range(MAX_STORED))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORST)
def test_the_most_that_is_read_fits_into_a_gigabyte(name: str, tmp_path: Path) -> None:
    path = tmp_path / "worst.onnx"
    path.write_bytes(WORST[name]())
    command = [sys.executable, "-c", CHECK, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert int(found.stdout) * 1024 < 1e9
