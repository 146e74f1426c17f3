"""What ``--json`` prints: one object with its schema and version, and errors in the same form.

Stdout holds exactly one document, whatever happens: a result, a result with the ``error`` that
ended the command (some boards failed), or the error alone (``mansard/error``). So a document is
kept until the command ends. The line for people on stderr comes as well.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from mansard.cli.remedies import with_given
from mansard.core.errors import MansardError

SCHEMA_VERSION = 1  # of every schema; one whose meaning changes gets a number of its own
_kept: list[bytes] = []  # the document of the command that runs; none, or one
_in_lines: list[str] = []  # the schema of documents that are a line each
_streamed: list[str] = []  # the schema of a document that was written while it came


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error: ``kind`` is its class, ``fix`` what to do about it, if that is known."""

    kind: str
    what: str
    where: str | None
    fix: str | None
    exit_code: int

    @classmethod
    def of(cls, error: MansardError) -> ErrorDocument:
        """An error of ours."""
        return cls(
            kind=type(error).__name__,
            what=error.what,
            where=error.where,
            fix=None if error.fix is None else with_given(error.fix),
            exit_code=error.exit_code,
        )


def print_json(schema: str, value: object) -> None:
    """Print ``value`` with its schema, ``mansard/<schema>``, when the command ends.

    ``value`` is a mapping or a record, whose lists have plural names.
    """
    _kept[:] = [_encode(schema, value)]


def json_document(schema: str, value: object) -> bytes:
    """The same document for a file, indented."""
    return _indented(_encode(schema, value))


def print_json_line(schema: str, value: object) -> None:
    """Print ``value`` with its schema on a line of its own, at once: JSON Lines.

    For what comes one by one without an end. An error after it is one line as well.
    """
    _in_lines[:] = [schema]
    sys.stdout.buffer.write(_encode(schema, value) + b"\n")


@contextlib.contextmanager
def stream_json(
    schema: str, name: str, write: Callable[[bytes], object]
) -> Iterator[Callable[[object], None]]:
    """Write a document with one list, ``name``, while its items come: too many to be kept.

    An error of ours ends the list; it stands in the document and is raised again.
    """
    separator = _head(schema) + b"," + msgspec.json.encode(name) + b":[\n"

    def take(item: object) -> None:
        nonlocal separator
        write(separator + msgspec.json.encode(item, enc_hook=_path_text))
        separator = b",\n"

    try:
        yield take
    except MansardError as error:
        if separator == b",\n":  # else nothing was written, and the error is a document alone
            write(b"\n]," + _error_field(ErrorDocument.of(error)) + b"}\n")
            _streamed[:] = [schema]
        raise
    write(b"\n]}\n" if separator == b",\n" else separator + b"]}\n")


def forget_json() -> None:
    """Begin a command without a document."""
    _kept.clear()
    _streamed.clear()
    _in_lines.clear()


def finish_json(error: ErrorDocument | None, arguments: Sequence[str]) -> None:
    """Write the document of a command that ends, with the ``error`` that ended it, if any.

    ``arguments`` are the command's own: they say whether an error is asked for as JSON.
    """
    document, was_streamed, is_in_lines = b"".join(_kept), bool(_streamed), bool(_in_lines)
    forget_json()
    if error is not None and not was_streamed:
        if document:
            document = document[:-1] + b"," + _error_field(error) + b"}"
        elif is_json(arguments):
            document = _encode("error", {"error": error})
    if document:
        sys.stdout.flush()
        sys.stdout.buffer.write(document + b"\n" if is_in_lines else _indented(document))


def is_json(arguments: Sequence[str]) -> bool:
    """Whether the words of a command ask for JSON."""
    if "--json" in arguments or "--format=json" in arguments:
        return True
    return ("--format", "json") in itertools.pairwise(arguments)


def _encode(schema: str, value: object) -> bytes:
    content = msgspec.json.encode(value, enc_hook=_path_text)
    return _head(schema) + (b"}" if content == b"{}" else b"," + content[1:])


def _head(schema: str) -> bytes:
    return b'{"schema":"mansard/%s","version":%d' % (schema.encode(), SCHEMA_VERSION)


def _error_field(error: ErrorDocument) -> bytes:
    return b'"error":' + msgspec.json.encode(error)


def _indented(document: bytes) -> bytes:
    return msgspec.json.format(document) + b"\n"


def _path_text(value: object) -> str:
    """A path for JSON; bytes that are no UTF-8 are replaced, JSON has none."""
    if isinstance(value, Path):
        return os.fsencode(value).decode("utf-8", "replace")
    raise NotImplementedError(type(value).__name__)
