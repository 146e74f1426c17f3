"""Archives of one small image, right or wrong in one place, with their digests beside them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mansard.containers.images.building import image_tag
from mansard.containers.images.store import NAME_LABEL, digest_path
from mansard.containers.images.table import read_table
from mansard.core.version import VERSION

TABLE = read_table()
TAG = image_tag(TABLE.image("cpu"))
LABELS = {NAME_LABEL: "cpu", "org.opencontainers.image.version": VERSION}


def entry(name: str, data: bytes = b"", **changes: Any) -> bytes:
    """One entry of a tar; ``changes`` are attributes of its header."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % tarfile.BLOCKSIZE)


def pax(records: Mapping[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    """A header with ``records`` for the entry after it."""
    lines = b"".join(_record(f" {key}={value}\n".encode()) for key, value in records.items())
    return entry("pax", lines, type=kind)


def _record(rest: bytes) -> bytes:
    digits = len(str(len(rest) + 1))
    length = len(rest) + digits
    length += len(str(length)) - digits
    return str(length).encode() + rest


END = bytes(2 * tarfile.BLOCKSIZE)
LAYER = entry("etc", type=tarfile.DIRTYPE) + entry("etc/hello", b"hello") + END


def config_of(
    layers: Sequence[bytes], labels: Mapping[str, str] = LABELS, architecture: str = "amd64"
) -> bytes:
    """The configuration of an image."""
    names = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    return json.dumps(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {"Labels": dict(labels)},
            "rootfs": {"type": "layers", "diff_ids": names},
        }
    ).encode()


def image_tar(
    layers: Sequence[bytes] = (LAYER,),
    *,
    tags: Sequence[str] = (TAG,),
    config: bytes | None = None,
    manifests: int = 1,
    n_uses: int = 1,
    extra: bytes = b"",
) -> bytes:
    """The tar of an image, with ``extra`` entries before its manifest.

    The manifest lists the layers ``n_uses`` times.
    """
    config = config_of(layers) if config is None else config
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    files = [entry(name, layer) for name, layer in zip(names, layers, strict=True)]
    manifest = {"Config": "config.json", "RepoTags": list(tags), "Layers": names * n_uses}
    files += [entry("config.json", config), extra]
    files.append(entry("manifest.json", json.dumps([manifest] * manifests).encode()))
    return b"".join(files) + END


def written(path: Path, tar: bytes) -> Path:
    """``tar`` compressed at ``path``, with its digest."""
    return with_digest(path, gzip.compress(tar, 1))


def with_digest(path: Path, content: bytes) -> Path:
    """``content`` at ``path``, with its digest."""
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    digest_path(path).write_text(f"{digest}  {path.name}\n")
    return path


def names_in(tar: bytes) -> list[str]:
    """The names of a tar's entries, as Python reads it."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return archive.getnames()
