"""The journal: how a machine was found, written before anything of it is touched."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from mansard.core.errors import DeviceError
from mansard.core.records import Record, Schema
from mansard.core.version import VERSION
from mansard.device.cards.card import CardState, read_card
from mansard.device.clocks.nodes import find_clocks
from mansard.device.clocks.settings import MAX_SETTING_BYTES, find_settings, read_setting
from mansard.device.system import find_tool, read_text

_NO_TOOL = "the machine has no nvpmodel"
_NO_CARD = "no mode of a graphics card was set"


class FileFound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting: the board's absolute path, and its whole content as it was."""

    path: str
    content: Annotated[str, msgspec.Meta(max_length=MAX_SETTING_BYTES)]


class ModeFound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mode nvpmodel was in. The name is what counts: numbers differ between releases."""

    name: str
    id: int | None


class Journal(Record, frozen=True, kw_only=True):
    """What was found, by whom and when."""

    schema: ClassVar[Schema] = Schema("journal", 1)

    boot_id: str | None  # of the start of the system in which it was written
    pid: int
    started_utc: str
    tool_version: str
    nvpmodel: ModeFound | None
    files: tuple[FileFound, ...]
    stores: tuple[str, ...]  # what the board's own tools stored, beside the journal
    card: CardState | None  # of the graphics card, once a mode sets it

    def content(self, path: str) -> str | None:
        """What the setting ``path`` was; None where it is not in the journal."""
        return next((file.content for file in self.files if file.path == path), None)


def read_boot_id(root: Path) -> str | None:
    """What tells one start of the system from the next; see random(4)."""
    return read_text(root / "proc/sys/kernel/random/boot_id") or None


def observe(root: Path) -> Journal:
    """The machine as it is now; raises DeviceError where its power mode cannot be found out."""
    boot_id, mode = read_boot_id(root), _present_mode(root)
    unknown = {"card": _NO_CARD}
    if not boot_id:
        unknown["boot_id"] = "/proc/sys/kernel/random/boot_id cannot be read"
    if mode is None:
        unknown["nvpmodel"] = _NO_TOOL
    return Journal(
        boot_id=boot_id,
        pid=os.getpid(),
        started_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tool_version=VERSION,
        nvpmodel=mode,
        files=_read_files(root, frozenset()),
        stores=(),
        card=None,
        unknown=unknown,
    )


def extend(root: Path, journal: Journal) -> Journal:
    """The journal with the settings that have come to light since, such as a new core's."""
    known = frozenset(file.path for file in journal.files)
    more = _read_files(root, known)
    return msgspec.structs.replace(journal, files=(*journal.files, *more)) if more else journal


def with_card(journal: Journal) -> Journal:
    """The journal with the state of the graphics card; raises DeviceError."""
    if journal.card is not None:
        return journal
    unknown = {name: why for name, why in journal.unknown.items() if name != "card"}
    return msgspec.structs.replace(journal, card=read_card(), unknown=unknown)


def _read_files(root: Path, known: frozenset[str]) -> tuple[FileFound, ...]:
    files = []
    for path in find_settings(root, find_clocks(root)):
        content = read_setting(root, path) if path not in known else None
        if content is not None:
            files.append(FileFound(path, content))
    return tuple(files)


def _present_mode(root: Path) -> ModeFound | None:
    from mansard.device.nvpmodel.tool import query

    if find_tool(root, "nvpmodel") is None:
        return None
    try:
        answer = query(root)
    except DeviceError as error:
        raise DeviceError(
            f"nothing is set, for the power mode could not be put back: {error.what}",
            where=error.where,
            fix=error.fix,
        ) from error
    return ModeFound(answer.name, answer.id)
