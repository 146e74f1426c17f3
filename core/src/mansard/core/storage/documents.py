"""Documents: one record in one readable JSON file, with its schema and version."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mansard.core.errors import InputError, SchemaError
from mansard.core.processes.line_channel import DECODE_ERRORS
from mansard.core.records import Record
from mansard.core.storage.files import read_whole, write_atomic

Document = TypeVar("Document", bound=Record)


def readable_json(value: object) -> bytes:
    """Any value msgspec can encode as indented JSON in UTF-8, with a last newline."""
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def write_document(path: Path, record: Record, within: Path | None = None) -> None:
    """Write one record as a readable JSON document, whole or not at all; see ``files``."""
    schema = record.schema
    document = {"schema": schema.name, "version": schema.version, "content": record}
    write_atomic(path, readable_json(document), within)


def read_document(path: Path, record_type: type[Document], within: Path | None = None) -> Document:
    """Read what ``write_document`` wrote; raises SchemaError or StorageError."""
    data = read_whole(path, within)
    expected = record_type.schema
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        versions = range(expected.oldest or expected.version, expected.version + 1)
        if envelope.schema != expected.name or envelope.version not in versions:
            raise SchemaError(
                f"is {envelope.schema!r} version {envelope.version}, "
                f"this Mansard reads {expected.name!r} version {expected.version}",
                where=str(path),
                fix="use the Mansard that wrote it, or measure again into another folder",
            )
        return msgspec.json.decode(envelope.content, type=record_type)
    except DECODE_ERRORS as error:
        raise SchemaError(
            f"cannot read this document: {error or type(error).__name__}",
            where=str(path),
            fix="it was changed by hand or written by another version; measure again",
        ) from error


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    version: int
    content: msgspec.Raw


# Reading the user's own files: boards, images, problems, mappings.


_MOST_BYTES = 1 << 20


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The content of a file that is ``what``; raises InputError or StorageError."""
    data = read_whole(path)
    if len(data) > _MOST_BYTES:
        raise InputError(f"is too long for {what}", where=str(path))
    try:
        content: dict[str, Any] = msgspec.toml.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", where=str(path)) from error
    return content


def read_json(
    path: Path, what: str, *, most_bytes: int = _MOST_BYTES, fix: str | None = None
) -> Any:
    """The content of a file that is ``what``; raises InputError, with ``fix``, or StorageError."""
    data = read_whole(path)
    if len(data) > most_bytes:
        raise InputError(f"is too long for {what}", where=str(path))
    try:
        return json.loads(data, object_pairs_hook=_without_repeats)
    except DECODE_ERRORS as error:
        raise InputError(f"is not JSON: {error}", where=str(path), fix=fix) from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse equal keys: the second would silently replace the first."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise ValueError(f"{name!r} is there twice")
    return dict(pairs)


def settings_file(name: str, home: Path | None = None) -> Path | None:
    """The file of that name in the user's folder of settings, if it is there."""
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    if not settings.is_absolute():  # as the XDG Base Directory Specification has it
        settings = (home or Path.home()) / ".config"
    place = settings / "mansard" / name
    return place if place.is_file() else None
