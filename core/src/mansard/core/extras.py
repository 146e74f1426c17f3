"""The libraries that the core does without, and the command that installs them.

``pip install mansard`` installs the core alone. Where a library of an extra is missing, Python's
ModuleNotFoundError becomes one line with the command that works here, from an index or a clone.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mansard.core.errors import MissingLibrary

# The extra that installs each library, by the name that it is imported by (pyproject.toml).
EXTRAS: Mapping[str, str] = MappingProxyType(
    {
        "PIL": "networks",
        "altair": "report",
        "distributed": "dask",
        "docker": "boards",
        "jinja2": "report",
        "onnx": "networks",
        "onnxruntime": "onnxruntime",
        "onnxscript": "export",
        "polars": "report",
        "scipy": "report",
        "torch": "export",
        "transformers": "export",
        "vl_convert": "report",
    }
)


def missing_library(error: ModuleNotFoundError) -> MissingLibrary | None:
    """``error`` in one line, where it is about a library of an extra; None for other modules."""
    module = (error.name or "").partition(".")[0]
    module = "onnx" if module == "google" else module  # onnx brings protobuf
    return _missing(module) if module in EXTRAS else None


def _missing(module: str) -> MissingLibrary:
    return MissingLibrary(
        f"this needs {module}, which is not installed", fix=install_command(EXTRAS[module])
    )


def has_extra(extra: str) -> bool:
    """Whether all libraries of ``extra`` are installed; none of them is imported."""
    return all(_is_installed(module) for module, name in EXTRAS.items() if name == extra)


def require_extra(extra: str) -> None:
    """Raise MissingLibrary for the first library of ``extra`` that is not installed."""
    for module, name in EXTRAS.items():
        if name == extra and not _is_installed(module):
            raise _missing(module)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # something keeps it from being imported
        return False


def install_command(extra: str) -> str:
    """The command that adds ``extra``: ``pip install 'mansard[report]'``, or from the clone."""
    return f"pip install {_requirement(extra, _origin())}"


def _requirement(extra: str, origin: Mapping[str, Any]) -> str:
    """What pip is asked for; ``origin``: the fields of the installation's direct_url.json."""
    from urllib.parse import unquote, urlsplit

    url = urlsplit(str(origin.get("url", "")))
    path = Path(unquote(url.path))
    if url.scheme == "file" and path.exists():
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return editable + shlex.quote(f"{path}[{extra}]")
    if "vcs_info" in origin:
        return shlex.quote(f"mansard[{extra}] @ {origin['vcs_info']['vcs']}+{origin['url']}")
    return shlex.quote(f"mansard[{extra}]")


def _origin() -> Mapping[str, Any]:
    """Where pip installed Mansard from; empty for an index, or where nothing says it.

    https://packaging.python.org/en/latest/specifications/direct-url/
    """
    from importlib.metadata import PackageNotFoundError, distribution

    import msgspec

    try:
        text = distribution("mansard").read_text("direct_url.json")
        document = msgspec.json.decode(text or "{}")
    except (PackageNotFoundError, OSError, msgspec.DecodeError):
        return {}
    return document if isinstance(document, dict) else {}
