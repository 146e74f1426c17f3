"""Hints of the commands beside ``score`` of networks: following one once succeeds, too.

Networks are prepared for ``measure`` and scored for ``recommend`` and ``bench`` by one function
each, so that their hints are followed without a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mansard.api.scores import score_batches
from mansard.cli.options import parse_dimensions
from mansard.core.errors import MansardError
from mansard.estimator import Given, Settings
from mansard.inference.preparing.networks import prepare
from mansard.sweeps.reporter import SILENT
from tests.cli.in_process import mansard
from tests.estimator.hints import SIZES, ways, words
from tests.estimator.test_advice import NETWORKS


def prepared(path: Path, batch: int | None, dims: Mapping[str, int]) -> None:
    prepare(path, seed=0, batch=batch, dims=dims)


def predicted(path: Path, batch: int | None, dims: Mapping[str, int]) -> None:
    score_batches(path, (batch,), Settings(Given(dims=dims), allow_unknown=True), SILENT)


def refusal(command: Callable[..., None], path: Path, options: list[str]) -> str | None:
    """The message of ``command``, where it refuses the network with ``options``."""
    pairs = list(zip(options[::2], options[1::2], strict=True))
    assert {name for name, _ in pairs} <= {"--batch", "--dim"}  # it has no others for a network
    batch = next((int(value) for name, value in pairs if name == "--batch"), None)
    try:
        command(path, batch, parse_dimensions([text for name, text in pairs if name == "--dim"]))
    except MansardError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("command", [prepared, predicted])
def test_hints_of_other_commands_name_options_that_they_have(
    command: Callable[..., None], name: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(NETWORKS[name][0])
    message = refusal(command, path, [])
    if message is None or "--inputs x.npz" in message:  # data that nobody can guess
        return
    assert ways(message)
    for way in ways(message):
        assert None in [refusal(command, path, words(way, n, "", {})) for n in SIZES]


# A command, and the words that its message says to add.
ADDED = [
    ("score alexnet --optimizer adam", "--phase training"),
    ("score alexnet --recompute", "--phase training"),
    ("score alexnet --format parquet", "--output scores.parquet"),
    ("score alexnet --output scores.json", "--format json"),
    ("score alexnet --dim sequence=3", None),
    ("score bert_base --batch 2 --dim batch=4", None),
    ("score lstm --dim sequnce=3", None),
]


@pytest.mark.parametrize(("command", "added"), ADDED)
def test_what_a_message_says_to_add(command: str, added: str | None, tmp_path: Path) -> None:
    done = mansard(*command.split(), cwd=tmp_path)
    assert done.returncode == 2
    hint = re.search(r"; add (--\w+ [\w.]+)", done.stderr)
    assert (hint and hint[1]) == added
    if added is not None:
        assert mansard(*command.split(), *added.split(), cwd=tmp_path).returncode == 0


# What a message says to write in the place of a value.
WRITTEN = [
    ("score alexnet --batch 0", "0", r"write (\d+)"),
    ("score alexnet --batch x", "x", r"write (\d+)"),
    ("score lstm --dim sequence", "sequence", r"example --dim (batch=8,sequence=128)"),
    ("score alexnt", "alexnt", r"did you mean (\w+)\?"),
    ("score alexnet --precision fp17", "fp17", r"(fp16|fp32)"),
]


@pytest.mark.parametrize(("command", "value", "pattern"), WRITTEN)
def test_what_a_message_says_to_write(
    command: str, value: str, pattern: str, tmp_path: Path
) -> None:
    done = mansard(*command.split(), cwd=tmp_path)
    assert done.returncode == 2
    hint = re.search(pattern, done.stderr)
    assert hint is not None, done.stderr
    better = command.removesuffix(value) + hint[1]
    assert mansard(*better.split(), cwd=tmp_path).returncode == 0, better
