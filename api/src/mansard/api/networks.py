"""The networks that ship with Mansard, and networks of PyTorch as ONNX files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.scores import score_zoo
from mansard.core.files import make_folder
from mansard.core.records import ModelScore

if TYPE_CHECKING:
    from mansard.estimator.zoo import Entry


class ZooNetwork(msgspec.Struct, frozen=True):
    """A network of the zoo, and its score at batch 1 in FP32."""

    entry: Entry
    score: ModelScore


def list_networks() -> tuple[Entry, ...]:
    """The networks of the zoo with their inputs and what is published about them."""
    from mansard.estimator import zoo

    return tuple(zoo.entry(name) for name in zoo.names())


def show_network(name: str) -> ZooNetwork:
    """What one network is, where its figures come from, and its work; raises UsageError."""
    from mansard.estimator import zoo

    return ZooNetwork(zoo.entry(name), score_zoo(name))


def write_networks(folder: Path, names: Sequence[str] = ()) -> tuple[Path, ...]:
    """Write networks of the zoo as ONNX files, all by default; raises UsageError, StorageError."""
    from mansard.estimator import zoo

    entries = [zoo.entry(name) for name in names or zoo.names()]  # known before one is written
    make_folder(folder)
    return tuple(zoo.write(entry.name, folder) for entry in entries)
