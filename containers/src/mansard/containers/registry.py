"""How much a pull would download: the registry is asked for the sizes of an image's layers.

The daemon cannot tell: its own question to a registry (``/distribution/…/json``) answers with
the size of the manifest, not of what the manifest lists. So the manifest is read here, by the
protocol that every registry speaks: OCI Distribution Specification 1.1, and the Docker token
authentication for public images. Layers that are on the disk already count as well: the
answer is the most that can come.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from mansard.containers.references import DEFAULT_HOST, Reference, parse_reference
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
    """What a pull would fetch, at most."""

    reference: str
    n_bytes: int | None
    source: str  # who says so; or why it is not known


def ask_registry(reference: str, architecture: str) -> Download:
    """The compressed size of an image's layers; unknown with the reason where it cannot be had.

    Never raises for what a registry or a network does: a size is worth knowing, not worth failing.
    """
    parsed = parse_reference(reference)
    if parsed is None:
        return Download(reference, None, "this is no name of an image")
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
    found = json.loads(content)
    if not isinstance(found, dict):
        raise TypeError("it is no object")
    return found
