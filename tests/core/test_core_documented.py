"""docs/reference/records.md names every field of every record, and its version."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from mansard.core import records

DOCUMENT = Path(__file__).parents[2] / "docs/reference/records.md"
RECORDS = [
    value
    for value in vars(records).values()
    if inspect.isclass(value) and issubclass(value, records.Record) and value is not records.Record
]
STORED = [record for record in RECORDS if hasattr(record, "schema")]


def section_of(record: type[records.Record]) -> str:
    sections = re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.M)
    return next(text for text in sections if text.startswith(f"{record.__name__}\n"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_is_documented(record: type[records.Record]) -> None:
    rows = re.findall(r"^\|[^|]+\|", section_of(record), re.M)
    documented = set(re.findall(r"`(\w+)`", "".join(rows)))
    assert set(record.__struct_fields__) - {"unknown"} == documented


@pytest.mark.parametrize("record", STORED, ids=lambda record: record.__name__)
def test_the_version_is_documented(record: type[records.Record]) -> None:
    version = record.schema.version
    assert re.match(rf"\w+\n\nVersion {version}[.;]", section_of(record))
