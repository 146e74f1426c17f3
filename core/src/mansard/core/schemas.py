"""The name and version of each record's schema, and reading whole documents.

A version is raised whenever a field is added, removed or changes its meaning.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.files import storage_error, write_atomic
from mansard.core.records import (
    MachineIdentity,
    Manifest,
    Measurement,
    ModelScore,
    PowerSample,
    Record,
    Trial,
)


class Schema(msgspec.Struct, frozen=True):
    """How a kind of record is called in files, and at which version it stands."""

    name: str
    version: int


SCHEMAS: MappingProxyType[type[Record], Schema] = MappingProxyType(
    {
        MachineIdentity: Schema("machine", 1),
        Manifest: Schema("manifest", 1),
        Measurement: Schema("measurement", 1),
        ModelScore: Schema("score", 1),
        PowerSample: Schema("power-sample", 1),
        Trial: Schema("trial", 1),
    }
)

Document = TypeVar("Document", bound=Record)


def schema_of(record_type: type[Record]) -> Schema:
    """The schema of a record that files may hold."""
    return SCHEMAS[record_type]


def write_document(path: Path, record: Record) -> None:
    """Write one record as a readable JSON document, whole or not at all."""
    schema = schema_of(type(record))
    document = {"schema": schema.name, "version": schema.version, "content": record}
    write_atomic(path, msgspec.json.format(msgspec.json.encode(document)) + b"\n")


def read_document(path: Path, record_type: type[Document]) -> Document:
    """Read what ``write_document`` wrote; raises SchemaError or StorageError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise storage_error(error, path) from error
    expected = schema_of(record_type)
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if (envelope.schema, envelope.version) != (expected.name, expected.version):
            raise SchemaError(
                f"is {envelope.schema!r} version {envelope.version}, "
                f"this Mansard reads {expected.name!r} version {expected.version}",
                where=str(path),
                fix="use the Mansard that wrote it, or measure again into another folder",
            )
        return msgspec.json.decode(envelope.content, type=record_type)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SchemaError(
            f"cannot read this document: {error}",
            where=str(path),
            fix="it was changed by hand or written by another version; measure again",
        ) from error


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    version: int
    content: msgspec.Raw
