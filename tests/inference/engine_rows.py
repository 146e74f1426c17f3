"""The row beside an engine file, for tests that load one."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from mansard.core.hashing import stream_hash
from mansard.core.records import EngineBuild
from mansard.core.storage.documents import write_document

FILE = "net_random.engine"


def write_row(folder: Path, options: Mapping[str, str], **changes: Any) -> None:
    """The document that the kind "builds" writes beside ``FILE``, with what is read of it."""
    path = folder / FILE
    content = path.read_bytes() if path.exists() else b""
    row = EngineBuild(
        run_id="r",
        trial_id="t",
        source="simulated",
        model="net",
        model_hash="0" * 16,
        file_hash="0" * 16,
        engine="tensorrt",
        engine_version="10.3.0",
        device="Orin",
        precision="fp32",
        batch=2,
        dimensions={},
        options=dict(options),
        engine_file=FILE,
        engine_hash=stream_hash(io.BytesIO(content)),
        engine_bytes=len(content),
        build_s=1.0,
        timing_cache="new",
        n_layers=3,
        dla_share=0.5,
        remarks=(),
        failure=None,
        started_utc="2026-01-01T00:00:00Z",
        duration_s=1.0,
        unknown={"failure": "it was built"},
    )
    write_document(folder / f"{FILE}.json", msgspec.structs.replace(row, **changes))
