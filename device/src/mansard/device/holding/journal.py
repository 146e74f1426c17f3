"""The journal: how a machine was found, on disk before anything of the machine is touched."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from mansard.core.errors import DeviceError, MansardError, StorageError
from mansard.core.records import Record, Schema
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.files import make_folder, storage_error
from mansard.core.version import VERSION
from mansard.device.cards import CardState, read_card
from mansard.device.clocks.settings import (
    MAX_SETTING_BYTES,
    find_clocks,
    find_settings,
    read_setting,
)
from mansard.device.holding.acting import STORE
from mansard.device.system import SYSTEM_ROOT, find_tool, read_text

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
            f"nothing is set, for the power mode could not be restored: {error.what}",
            where=error.where,
            fix=error.fix,
        ) from error
    return ModeFound(answer.name, answer.id)


_NAME = "journal.json"
_FOLDER = "var/lib/mansard"
_BY_HAND = (
    "restore the settings by hand (nvpmodel -m; a reboot resets all clocks), then remove this file"
)


def journal_folders(root: Path) -> tuple[Path, ...]:
    """The folders that may hold a journal, the machine's own first.

    A user who may not write there keeps the journal in their own state folder, by machine.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # as the XDG base directory specification has it
        state = Path("~/.local/state").expanduser()
    user = state / "mansard"
    if root.resolve() != SYSTEM_ROOT:
        user /= hashlib.sha256(bytes(root.resolve())).hexdigest()[:16]
    return (root / _FOLDER, user)


def find_journal(root: Path) -> Path | None:
    """The journal of a run that has not been brought to its end; None if all is well."""
    for folder in journal_folders(root):
        path = folder / _NAME
        if os.path.lexists(path):
            return path
    return None


def read_journal(path: Path) -> Journal:
    """The journal in ``path``; raises MansardError in one clear line, never a guess."""
    try:
        status = path.lstat()
    except OSError as error:
        raise storage_error(error, path) from error
    if not stat.S_ISREG(status.st_mode):
        raise StorageError("is not a journal: it is not a file", where=str(path), fix="remove it")
    if status.st_uid not in {0, os.geteuid()}:
        raise StorageError(
            f"is not a journal of yours: it belongs to user {status.st_uid}",
            where=str(path),
            fix="run 'mansard board restore' as that user, or remove it if it belongs to no user",
        )
    try:
        return read_document(path, Journal)
    except MansardError as error:
        raise StorageError(
            f"this journal cannot be used, nothing was restored: {error.what}",
            where=str(path),
            fix=_BY_HAND,
        ) from error


def write_journal(root: Path, journal: Journal) -> Path:
    """Put the journal on disk, file and folder synced; raises StorageError, then nothing is left.

    An old journal of this run is replaced in one step.
    """
    folder = _writable_folder(root)
    path = folder / _NAME
    try:
        write_document(path, journal)
        _sync(folder)
        _sync(folder.parent)
    except MansardError as error:
        _remove_folder(folder)
        raise StorageError(
            f"nothing is set without a journal, which cannot be written: {error.what.lower()}",
            where=str(path),
            fix=error.fix,
        ) from error
    return path


def _writable_folder(root: Path) -> Path:
    """The first folder that can be written; raises StorageError of the last."""
    *others, last = journal_folders(root)
    for folder in others:
        with contextlib.suppress(StorageError):
            if os.access(make_folder(folder), os.W_OK | os.X_OK):
                return folder
    return make_folder(last)


def remove_journal(path: Path) -> None:
    """Forget a journal whose machine is as it was; also what a killed writer left beside it."""
    folder = path.parent
    try:
        for left in (*_torn(folder), folder / STORE, path):
            left.unlink(missing_ok=True)
        _sync(folder)
    except OSError as error:
        raise storage_error(error, path) from error
    _remove_folder(folder)


def find_leftovers(root: Path) -> tuple[Path, ...]:
    """What killed writers left: half a file, an empty folder; or what one is writing just now."""
    folders = journal_folders(root)
    torn = (path for folder in folders for path in _torn(folder))
    return (*torn, *(folder for folder in folders if _is_empty(folder)))


def clean_up(root: Path) -> None:
    """Remove what a killed writer left where no journal was finished; the caller holds the lock."""
    for folder in journal_folders(root):
        for torn in _torn(folder):
            with contextlib.suppress(OSError):
                torn.unlink()
        _remove_folder(folder)


def _torn(folder: Path) -> tuple[Path, ...]:
    return tuple(folder.glob(f".{_NAME}.*"))


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except OSError:  # none, or one that is nobody's here
        return False


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it holds something else
        folder.rmdir()


def _sync(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise storage_error(error, folder) from error
