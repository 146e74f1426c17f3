"""docs/reference/records.md names every field of every record."""

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


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_is_documented(record: type[records.Record]) -> None:
    sections = re.split(r"^## ", DOCUMENT.read_text(encoding="utf-8"), flags=re.M)
    section = next(text for text in sections if text.startswith(f"{record.__name__}\n"))
    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|[^|]+\|", section, re.M))))
    assert set(record.__struct_fields__) - {"unknown"} == documented
