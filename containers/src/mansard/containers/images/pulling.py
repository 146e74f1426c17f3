"""Pulling a base image: its size is said first, and the pull asked for.

The daemon cannot tell the size: its own question to a registry (``/distribution/…/json``)
answers with the size of the manifest, not of what the manifest lists. So the manifest is read
here, by the protocol that every registry speaks: OCI Distribution Specification 1.1, and the
Docker token authentication for public images. Layers that are on the disk already count as
well: the answer is the most that can come.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from mansard.containers.answers import LOG, answer, messages
from mansard.containers.engine import ContainerEngine
from mansard.containers.engine_errors import explain_build, explained
from mansard.containers.images.store import check_disk, find_base, shown
from mansard.containers.images.table import (
    DEFAULT_HOST,
    Image,
    Reference,
    check_reference,
    parse_reference,
)
from mansard.core.errors import ContainerError, UsageError
from mansard.core.text import printable

_TIMEOUT_S = 10.0
_MOST_BYTES = 4 << 20  # the specification's limit for a manifest
_ACCEPT = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"')
_LOCAL = re.compile(r"(?:localhost|127\.[0-9.]+)(?::[0-9]+)?")  # Docker asks these without TLS
# What registries call a processor: GOARCH.
ARCHITECTURES = MappingProxyType({"x86_64": "amd64", "aarch64": "arm64"})
_API_HOSTS = MappingProxyType({DEFAULT_HOST: "registry-1.docker.io"})


class Download(msgspec.Struct, frozen=True):
    """The most that a pull would download."""

    reference: str
    n_bytes: int | None
    source: str  # who says so; or why it is not known


def ask_registry(reference: str, architecture: str) -> Download:
    """The compressed size of an image's layers; unknown with the reason if the registry refuses it.

    Never raises for what a registry or a network does: a size is worth knowing, not worth failing.
    """
    parsed = parse_reference(reference)
    if parsed is None:
        return Download(reference, None, "this is not a name of an image")
    try:
        n_bytes = _layers_bytes(_Registry(parsed), parsed, architecture)
    except (OSError, http.client.HTTPException) as error:
        reason = printable(str(getattr(error, "reason", None) or error), 200)
        return Download(reference, None, f"{parsed.host} cannot be asked: {reason}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = printable(str(error), 200)
        return Download(reference, None, f"{parsed.host} gave no manifest: {reason}")
    return Download(reference, n_bytes, f"the manifest at {parsed.host}")


def _layers_bytes(registry: _Registry, parsed: Reference, architecture: str) -> int:
    manifest = registry.manifest(parsed.digest or parsed.tag)
    if "manifests" in manifest:
        manifest = registry.manifest(_for_architecture(manifest["manifests"], architecture))
    sizes = [layer["size"] for layer in manifest["layers"]]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError("a layer without a size")
    return sum(sizes)


def _for_architecture(manifests: list[dict[str, Any]], architecture: str) -> str:
    wanted = ARCHITECTURES.get(architecture, architecture)
    for manifest in manifests:
        platform = manifest.get("platform") or {}
        if (platform.get("os"), platform.get("architecture")) == ("linux", wanted):
            return str(manifest["digest"])
    raise ValueError(f"it has none for {architecture}")


class _Registry:
    """A registry's answers about one repository, with a token if it asks for one."""

    def __init__(self, reference: Reference) -> None:
        scheme = "http" if _LOCAL.fullmatch(reference.host) else "https"
        host = _API_HOSTS.get(reference.host, reference.host)
        self._base = f"{scheme}://{host}/v2/{reference.path}/manifests/"
        self._headers = {"Accept": _ACCEPT}

    def manifest(self, name: str) -> dict[str, Any]:
        url = self._base + name
        try:
            return _read(url, self._headers)
        except urllib.error.HTTPError as error:
            if error.code != 401 or "Authorization" in self._headers:
                raise
            challenge = str(error.headers.get("WWW-Authenticate", ""))
        self._headers["Authorization"] = f"Bearer {_token(challenge)}"
        return _read(url, self._headers)


def _token(challenge: str) -> str:
    """A token for anyone, from where the registry's challenge sends us."""
    fields = dict(_CHALLENGE.findall(challenge))
    realm = fields.pop("realm", "")
    address = urlsplit(realm)
    is_local = address.scheme == "http" and _LOCAL.fullmatch(address.netloc) is not None
    if address.scheme != "https" and not is_local:
        raise ValueError("it asks for a login")
    wanted = {name: fields[name] for name in ("service", "scope") if name in fields}
    answer = _read(f"{realm}?{urlencode(wanted)}", {})
    return str(answer.get("token") or answer["access_token"])


def _read(url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - http(s) by now
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        content = answer.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("it is too long")
    document = json.loads(content)
    if not isinstance(document, dict):
        raise TypeError("it is not an object")
    return document


_PERIOD_S = 5.0  # between lines of progress
# A compressed layer of CUDA's libraries grows to about this many times on the disk: 5.2 GB of
# l4t-jetpack:r36.4.0 become 15.5 GB (the notes of a public project that pulled it).
_UNPACKED = 3.0
# Wheels of each list at the versions pinned, in bytes: the larger of x86_64 and aarch64.
LIBRARIES_BYTES = MappingProxyType(
    {"cpu": 104_000_000, "cuda11": 207_000_000, "cuda12": 434_000_000, "cuda13": 374_000_000}
)


class Downloads(msgspec.Struct, frozen=True, kw_only=True):
    """All that building an image would fetch."""

    base: Download | None  # None: it is on the machine
    libraries_bytes: int  # 0 with a folder of wheels

    @property
    def in_words(self) -> str:
        """The downloads in words."""
        parts = []
        if self.base is not None:
            size = "an unknown size" if self.base.n_bytes is None else shown(self.base.n_bytes)
            parts.append(f"{size} of {self.base.reference} ({self.base.source})")
        if self.libraries_bytes:
            parts.append(f"about {shown(self.libraries_bytes)} of libraries")
        return " and ".join(parts) or "nothing"


Confirm = Callable[[Downloads], bool]


def downloads(engine: ContainerEngine, image: Image, wheels: Path | None = None) -> Downloads:
    """What building ``image`` would download, the registry asked."""
    base = None
    if find_base(engine.client, image.base) is None:
        base = ask_registry(image.base, engine.facts.architecture or image.architectures[0])
        if base.n_bytes is None and image.download_bytes is not None:
            base = Download(image.base, image.download_bytes, f"images.toml; {base.source}")
    return Downloads(
        base=base,
        libraries_bytes=0 if wheels is not None else LIBRARIES_BYTES[image.libraries],
    )


def ensure_base(
    engine: ContainerEngine,
    image: Image,
    *,
    offline: bool,
    wheels: Path | None,
    confirm: Confirm,
    tell: Callable[[str], None],
) -> None:
    """Pull the base where it is not there; raises ContainerError, StorageError or UsageError."""
    if offline:
        if find_base(engine.client, image.base) is None:
            raise ContainerError(
                f"the base {image.base} is not on this machine, and nothing may be downloaded",
                where=engine.address,
                fix="'docker load' it from a file with its tag, or leave out --offline",
            )
        return
    wanted = downloads(engine, image, wheels)
    if wanted.base is None and not wanted.libraries_bytes:
        return
    base_bytes = 0 if wanted.base is None else wanted.base.n_bytes or 0  # unknown: not counted
    check_disk(engine, round(_UNPACKED * (base_bytes + wanted.libraries_bytes)), "the image")
    if not confirm(wanted):
        raise UsageError(
            "nothing was downloaded, so there is no image", fix="say yes, or measure with LOCAL=1"
        )
    if wanted.base is not None:
        pull(engine, image.base, tell)


def pull(engine: ContainerEngine, name: str, tell: Callable[[str], None] = lambda _: None) -> None:
    """Pull an image with lines of progress; raises ContainerError or StorageError."""
    from docker.auth import get_config_header, resolve_repository_name

    reference = check_reference(name, "pull")
    wanted = {"fromImage": reference.repository, "tag": reference.digest or reference.tag}
    registry = resolve_repository_name(reference.repository)[0]
    with explained(name, explain_build):
        login = get_config_header(engine.client.api, registry)
        pulling = answer(
            engine.client,
            "POST",
            "/images/create",
            limits=LOG,
            parameters=wanted,
            headers={"X-Registry-Auth": login.decode()} if login else {},
        )
        with pulling as response:
            for line in progress_lines(name, _checked(messages(response), name)):
                tell(line)


def progress_lines(
    name: str,
    events: Iterator[dict[str, Any]],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """A line every few seconds: how much of the layers that have begun is there."""
    fetched: dict[str, tuple[int, int]] = {}
    next_s = clock()
    for event in events:
        detail = event.get("progressDetail") or {}
        layer = str(event.get("id"))
        if event.get("status") == "Downloading" and detail.get("total"):
            fetched[layer] = (int(detail.get("current") or 0), int(detail["total"]))
        elif event.get("status") == "Download complete" and layer in fetched:
            fetched[layer] = (fetched[layer][1],) * 2
        if fetched and clock() >= next_s:
            next_s = clock() + _PERIOD_S
            done, total = (sum(sizes) for sizes in zip(*fetched.values(), strict=True))
            yield f"pulling {name}: {shown(done)} of {shown(total)} in {len(fetched)} layers so far"


def _checked(events: Iterator[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    for event in events:
        if error := event.get("error"):
            raise explain_build(str(error), name, done="pulled")
        yield event
