"""Answers that are kept beside runs, for the report: ``RUNS/hierarchical/NAME.json``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mansard.analytics.data.layout import OFFLOADS_FOLDER
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.core.documents import read_document, write_document
from mansard.core.errors import UsageError
from mansard.core.files import entries_in, make_folder

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")


def check_name(name: str) -> str:
    """``name``; raises UsageError where no file can bear it."""
    if not _NAME.fullmatch(name):
        fix = "use letters, digits, dots and dashes, 64 at most"
        raise UsageError(f"{name!r} cannot name an answer", fix=fix)
    return name


def write_answer(runs: Path, name: str, found: Hierarchical) -> Path:
    """Keep ``found`` in ``runs`` under ``name``, in the place of one that is there."""
    folder = make_folder(runs / OFFLOADS_FOLDER, runs)
    path = folder / f"{check_name(name)}.json"
    write_document(path, found, runs)
    return path


def answers_in(locations: Sequence[str]) -> dict[str, Hierarchical]:
    """The answers kept in folders of runs, by name, and by folder too where two have one name.

    Datasets at a URL have none. Raises SchemaError, StorageError.
    """
    found: dict[str, Hierarchical] = {}
    for location in locations:
        runs = Path(location)
        if "://" in location or not runs.is_dir():
            continue
        for entry in entries_in(runs / OFFLOADS_FOLDER, runs):
            name = entry.removesuffix(".json")
            if name != entry:
                answer = read_document(runs / OFFLOADS_FOLDER / entry, Hierarchical, runs)
                found[name if name not in found else f"{location}/{name}"] = answer
    return found
