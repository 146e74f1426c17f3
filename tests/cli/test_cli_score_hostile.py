"""``mansard score`` of files, names and places that were made to break it."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
import polars as pl
import pytest
from onnx import TensorProto, helper

from mansard.core.errors import MansardError, UsageError
from mansard.estimator import zoo
from tests.waiting import awaited

COMMAND = (sys.executable, "-m", "mansard.cli", "score")
MEASURE = (
    "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=-1); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, flush=True); "
    "sys.stdout.buffer.write(done.stdout); sys.exit(done.returncode)"
)
VALUE = helper.make_tensor_value_info
HOSTILE_NAMES = (
    *('=cmd|"/c calc"!A1', "<script>alert(1)</script>", "a\x1b[31mb\r\n\tc", "\u202egpj.exe"),
    *('"quo,ted"', "\0", "\ufeff", "\x7f\x9b", "[bold red]x[/]", "%s{}$x", "a\u2028b", "n" * 5000),
)


def mansard(*arguments: object, script: str = '"$@"') -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", script, "bash", *COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def model(
    nodes: list[onnx.NodeProto], shape: list[int] | None = None, opset: int = 17
) -> onnx.ModelProto:
    """Nodes from ``x`` to ``y``."""
    given = VALUE("x", TensorProto.FLOAT, [2, 3] if shape is None else shape)
    graph = helper.make_graph(nodes, "g", [given], [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def relus(names: tuple[str, ...]) -> onnx.ModelProto:
    """A chain of nodes with these names."""
    tensors = ["x", *(f"t{i}" for i in range(len(names) - 1)), "y"]
    pairs = zip(tensors, tensors[1:], names, strict=False)
    return model([helper.make_node("Relu", [a], [b], name) for a, b, name in pairs])


def varint(number: int) -> bytes:
    held = b""
    while number > 127:
        held, number = held + bytes([number & 127 | 128]), number >> 7
    return held + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def broken_files() -> Iterator[tuple[str, bytes]]:
    head = b"\x08\x08" + field(8, b"\x0a\x00\x10\x11")  # IR version 8, operator set 17
    yield from {
        "empty": b"",
        "zeros": bytes(100_000),
        "gzip": b"\x1f\x8b\x08" + bytes(100),
        "text": b"hello world\n" * 20,
        "no-graph": head,
        "beyond-the-end": head + varint(7 << 3 | 2) + varint(2**63) + b"xx",
        "varint-without-end": b"\x08" + b"\xff" * 11,
        "field-zero": b"\x08\x08\x02\x00",
        "groups": b"\x08\x08\x3b\x3b\x3b",
    }.items()
    graph = b""
    for _ in range(60):
        held = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(4, b"If") + field(2, b"y") + field(5, held))
    yield "deep", head + field(7, graph)
    numbers = field(1, b"a") + field(8, b"\x01" * 5_000_000) + b"\xa0\x01\x07"
    node = field(1, b"x") + field(2, b"y") + field(4, b"Relu") + field(5, numbers)
    yield "packed-numbers", head + field(7, field(1, node))
    yield "long-name", head + field(7, field(1, field(3, b"a" * 5_000_000)))
    yield "nodes", head + field(7, field(1, b"") * 2_100_000)
    yield "functions", head + field(25, b"") * 100_000
    yield from broken_graphs()


def broken_graphs() -> Iterator[tuple[str, bytes]]:
    relu = helper.make_node("Relu", ["x"], ["y"])
    cases = {
        "cycle": model([helper.make_node("Add", ["y", "x"], ["y"])]),
        "twice": model([relu, relu]),
        "nowhere": model([helper.make_node("Add", ["x", "z"], ["y"])]),
        "dimension": model([relu], [2, 2**63 - 1]),
        "negative": model([relu], [2, -(2**40)]),
        "zero": model([relu], [2, 0]),
        "rank": model([relu], [1] * 10_000),
        "opset-zero": model([relu], opset=0),
        "opset-huge": model([relu], opset=2**31),
        "control": model([helper.make_node("A\x1b[2J\n\u202e", ["x"], ["y"], "n\x07\r\n")]),
    }
    yield from ((name, proto.SerializeToString()) for name, proto in cases.items())
    raw = relus(("NAMENAME",)).SerializeToString()
    yield "no-text", raw.replace(b"NAMENAME", b"\xff\xfe\x80\xc0name")


def test_each_broken_file_is_one_line_in_little_time_and_memory(tmp_path: Path) -> None:
    names = []
    for name, content in broken_files():
        (tmp_path / f"{name}.onnx").write_bytes(content)
        names.append(name)
    whole = zoo.read("squeezenet1_1")
    for sixteenth in range(1, 16):
        (tmp_path / f"cut-{sixteenth}.onnx").write_bytes(whole[: len(whole) * sixteenth // 16])
        names.append(f"cut-{sixteenth}")
    (tmp_path / "whole.onnx").write_bytes(whole)
    os.mkfifo(tmp_path / "pipe.onnx")
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "folder").symlink_to(".")  # is not followed
    # The first line of its output is the most memory that the command took, in KiB.
    script = f'exec {shlex.quote(sys.executable)} -c "{MEASURE}" "$@"'
    done = mansard(tmp_path, "--batch", "1", "--jobs", "1", "--format", "csv", script=script)
    peak, _, out = done.stdout.partition("\n")
    assert int(peak) < 1_000_000
    assert done.returncode == 1
    assert {row["model"] for row in csv.DictReader(io.StringIO(out))} == {"whole"}
    told = [line for line in done.stderr.splitlines() if line.startswith("mansard: ")]
    assert len(told) == len(names) + 2
    for name in (*names, "pipe", "loop"):
        assert sum(f"/{name}.onnx: " in line for line in told) == 1, name
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert all(c.isprintable() or c == "\n" for c in done.stderr)


def test_names_come_out_of_every_format_as_they_went_in(tmp_path: Path) -> None:
    path, parquet = tmp_path / "names.onnx", tmp_path / "rows.parquet"
    onnx.save(relus(HOSTILE_NAMES), path)
    by_json = json.loads(mansard(path, "--json").stdout)["scores"][0]["score"]["layers"]
    command = [*COMMAND, str(path), "--format", "csv"]  # in bytes: no line end is replaced
    raw = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    by_csv = list(csv.DictReader(io.StringIO(raw, newline="")))
    assert mansard(path, "--format", "parquet", "-o", parquet).returncode == 0
    by_parquet = pl.read_parquet(parquet).to_dicts()
    assert [row["name"] for row in by_json] == list(HOSTILE_NAMES)
    for one, two, three in zip(by_json, by_csv, by_parquet, strict=True):
        assert one["name"] == two["layer"] == three["layer"]
        for count in ("work_flop", "read_bytes", "fused_traffic_bytes", "parameters", "runs"):
            assert one[count] == int(two[count]) == three[count]


def test_a_terminal_gets_no_control_characters(tmp_path: Path) -> None:
    onnx.save(relus(HOSTILE_NAMES), tmp_path / "names.onnx")
    done = mansard(tmp_path / "names.onnx", "--layers")
    assert done.returncode == 0
    assert all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)


@pytest.mark.parametrize(
    "options",
    [("--json", "-o", "m.onnx"), ("--html", "./m.onnx"), ("--json", "-o", "q", "--html", "./q")],
)
def test_no_result_is_written_over_a_model_or_another_result(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    zoo.write("lstm", tmp_path).rename(tmp_path / "m.onnx")
    before = (tmp_path / "m.onnx").read_bytes()
    script = f'cd {shlex.quote(str(tmp_path))} && "$@"'
    done = mansard("m.onnx", "--batch", "1", *options, script=script)
    assert done.returncode == 2
    assert "would be written over" in done.stderr
    assert ("would be written over" in done.stdout) == ("--json" in options)
    assert (tmp_path / "m.onnx").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_what_does_not_fit_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path, output = zoo.write("resnet18", tmp_path), tmp_path / "rows.json"
    output.write_text("old")
    # Files of up to 8 blocks of 1 KiB: the system refuses the write, as on a full disk.
    # Python would leave a part of a compiled module behind, which no later process can read.
    script = 'export PYTHONDONTWRITEBYTECODE=1; ulimit -f 8; "$@"'
    done = mansard(path, "--batch", "1", "--json", "-o", output, "--force", script=script)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "rows.json" in done.stderr
    assert "rows.json" in json.loads(done.stdout)["error"]["where"]
    assert output.read_text() == "old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["resnet18.onnx", "rows.json"]


def test_a_full_device_is_told_in_one_line(tmp_path: Path) -> None:
    path = zoo.write("squeezenet1_1", tmp_path)
    for form in ("table", "json"):
        done = mansard(path, "--batch", "1", "--format", form, script='"$@" >/dev/full')
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "No space left" in done.stderr


@pytest.mark.parametrize("option", ["--dim", "--trip", "--value", "--shape"])
def test_a_name_has_one_value(option: str) -> None:
    from mansard.cli import options

    parse = {
        "--dim": options.parse_dimensions,
        "--trip": options.parse_trips,
        "--value": options.parse_values,
        "--shape": options.parse_shapes,
    }[option]
    assert parse(["a=3", "a=3"]) == parse(["a=3"])
    with pytest.raises(UsageError, match="two values") as caught:
        parse(["a=3", "a=4"])
    assert isinstance(caught.value, MansardError)


def test_the_notes_of_a_thousand_branches_are_not_all_told(tmp_path: Path) -> None:
    nodes = []
    for i in range(30):
        branch = helper.make_graph(
            [helper.make_node("Relu", [f"t{i - 1}" if i else "x"], ["r"])],
            "b",
            [],
            [helper.make_empty_tensor_value_info("r")],
        )
        both = {"then_branch": branch, "else_branch": branch}
        nodes.append(helper.make_node("If", ["c"], [f"t{i}" if i < 29 else "y"], **both))
    proto = model(nodes)
    proto.graph.input.append(VALUE("c", TensorProto.BOOL, []))
    onnx.save(proto, tmp_path / "ifs.onnx")
    done = mansard(tmp_path / "ifs.onnx")
    assert done.returncode == 0
    assert done.stderr.count("note: ifs: ") == 20
    assert done.stderr.splitlines()[-1] == "note: and 11 more; --format json prints all"


def started(folder: Path) -> subprocess.Popen[bytes]:
    """Scoring many files with two processes, the first file done."""
    content = zoo.read("swin_t")
    for number in range(40):
        (folder / f"{number}.onnx").write_bytes(content)
    options = ("--batch", "1", "--jobs", "2", "--format", "csv")
    running = subprocess.Popen(
        [*COMMAND, str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert running.stderr is not None
    running.stderr.readline()
    return running


def processes(*options: str) -> list[int]:
    found = subprocess.run(["pgrep", *options], capture_output=True, text=True, check=False)
    return [int(number) for number in found.stdout.split()]


def test_a_killed_process_takes_no_file_along(tmp_path: Path) -> None:
    running = started(tmp_path)
    workers = processes("-P", str(running.pid), "-f", "spawn_main")
    os.kill(workers[0], signal.SIGKILL)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    rows = csv.DictReader(io.StringIO(out.decode()))
    assert {row["model"] for row in rows} == {str(number) for number in range(40)}


def test_workers_end_when_the_first_process_is_killed(tmp_path: Path) -> None:
    running = started(tmp_path)
    running.kill()
    assert running.wait(timeout=300) == -signal.SIGKILL
    try:
        assert awaited(lambda: not processes("-g", str(running.pid)))
    finally:
        for stream in (running.stdout, running.stderr):
            assert stream is not None
            stream.close()
        for number in processes("-g", str(running.pid)):
            os.kill(number, signal.SIGKILL)
