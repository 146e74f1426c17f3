"""Content hashes: the same content always gets the same name."""

from __future__ import annotations

import hashlib
from typing import IO

import msgspec

ID_CHARACTERS = 16  # 64 bits: two of a million runs collide with probability 3e-8


def content_hash(content: object) -> str:
    """A short hexadecimal hash of any value msgspec can encode.

    Mappings are hashed in sorted key order, so the order in which a dictionary
    was filled does not matter; the order of a sequence does.
    """
    canonical = msgspec.json.encode(content, order="deterministic")
    return hashlib.sha256(canonical).hexdigest()[:ID_CHARACTERS]


def file_hash(data: bytes) -> str:
    """The full SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def stream_hash(stream: IO[bytes], start: bytes = b"") -> str:
    """The SHA-256 of ``start`` and the rest of a stream, read piece by piece; raises OSError."""
    digest = hashlib.sha256(start)
    while piece := stream.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()
