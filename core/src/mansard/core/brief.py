"""A record in a few lines, as text for a prompt and as a table for a notebook.

``repr`` of a scored network would have every field of every layer: 100 kB for ResNet-50.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from html import escape
from typing import Any

_MOST_ROWS = 20  # of a table in a notebook
_MOST_COLUMNS = 12
_MOST_FIELDS = 12  # of a record in a prompt
_LONGEST_TEXT, _LONGEST_LINE = 60, 96
_MOST_LINES = 5  # of rows in a prompt
_NEVER = frozenset({"unknown", "model_hash", "score_id", "run_id", "trial_id"})
_FEW, _SHORT = 3, 24  # up to 3 numbers, or texts of less than 24 characters, are written out
_SCALARS = (str, bool, int, float)


class Brief:
    """A record whose ``repr`` has a few lines, and which notebooks show as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _record_text(self)

    def _repr_html_(self) -> str:
        return html_table(("field", "value"), fields(self).items())


def fields(record: Any) -> dict[str, object]:
    """The fields to show: without defaults, hashes, and reasons for unknown values."""
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    usual = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return {
        name: value
        for name in names
        if name not in _NEVER
        and (value := getattr(record, name)) is not None
        and value not in ((), "", usual.get(name))
    }


def _record_text(record: Any) -> str:
    parts = [f"{name}={brief_text(value)}" for name, value in fields(record).items()]
    if len(parts) > _MOST_FIELDS:
        parts = [*parts[:_MOST_FIELDS], f"… {len(parts) - _MOST_FIELDS} more fields"]
    joined, kind = ", ".join(parts), type(record).__name__
    if len(kind) + len(joined) < _LONGEST_LINE:
        return f"{kind}({joined})"
    return f"{kind}(\n  " + ",\n  ".join(parts) + ",\n)"


def rows_text(
    kind: str, rows: Sequence[Mapping[str, object]], others: Mapping[str, object] | None = None
) -> str:
    """The first rows of a table, a line each, then ``others``: the ``repr`` of a result."""
    if not rows and not others:
        return f"{kind}()"
    lines = [f"  {_row_text(row)}," for row in rows[:_MOST_LINES]]
    n_more = len(rows) - _MOST_LINES
    more = [f"  … {n_more:,} more"] if n_more > 0 else []
    rest = [f"  {_row_text(others)},"] if others else []
    return "\n".join([f"{kind}(", *lines, *more, *rest, ")"])


def _row_text(row: Mapping[str, object]) -> str:
    """One or two lines; cells that do not fit are left out."""
    lines = [""]
    for name, value in row.items():
        if value in (None, "") or _is_needless(name, row):
            continue
        part = f"{name}={brief_text(value)}"
        if not lines[-1] or len(lines[-1]) + len(part) <= _LONGEST_LINE:
            lines[-1] += f", {part}" if lines[-1] else part
        elif len(lines) == 1:
            lines.append(part)
        else:
            lines[-1] += ", …"
            break
    return ",\n    ".join(lines)


def _is_needless(name: str, row: Mapping[str, object]) -> bool:
    """Whether a column is an id, or of an inner record and the outer has it: ``choice.device``."""
    outer, _, last = name.rpartition(".")
    return last in _NEVER or (bool(outer) and last in row)


def brief_text(value: object) -> str:
    """One line for a value: long texts are cut, and records inside others counted."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        text = repr(value)
        return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…{text[0]}"
    if isinstance(value, Mapping):
        return _counted(len(value), "entry" if len(value) == 1 else "entries")
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes):
        return _collection_text(value)
    name = type(value).__name__
    if isinstance(value, Brief) or hasattr(value, "__struct_fields__"):
        label = next((one for one in fields(value).values() if isinstance(one, str)), None)
        return f"{name}({'' if label is None else brief_text(label) + ', '}…)"
    text = repr(value)
    return text if len(text) <= _LONGEST_TEXT else f"<{name}>"


def _collection_text(values: Sequence[Any] | Set[Any]) -> str:
    if len(values) <= _FEW and all(
        isinstance(one, _SCALARS) and len(str(one)) < _SHORT for one in values
    ):
        inside = ", ".join(map(brief_text, values))
        return f"({inside}{',' if len(values) == 1 else ''})"
    kinds = {type(one).__name__ for one in values}
    return _counted(len(values), kinds.pop() if len(kinds) == 1 else "items")


def _counted(n: int, what: str) -> str:
    return f"<{n} {what}>"


def cells(record: Any) -> dict[str, object]:
    """A record as the cells of a row: records inside it become columns ``outer.inner``.

    Tuples of texts and numbers become lists; empty tuples, tuples of records and reasons for
    unknown fields are left out.
    """
    row: dict[str, object] = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if hasattr(value, "__struct_fields__"):
            row |= {f"{name}.{inner}": cell for inner, cell in cells(value).items()}
        elif isinstance(value, (*_SCALARS, type(None))):
            row[name] = value
        elif isinstance(value, tuple | list | Set):
            if value and all(isinstance(one, _SCALARS) for one in value):
                row[name] = list(value)
        elif not isinstance(value, Mapping):
            row[name] = str(value)
    return row


def html_rows(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as a table of the first columns that have values, and how many rows are left out."""
    used = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if not _is_needless(name, rows[0]) and any(row.get(name) not in (None, "") for row in rows)
    ][:_MOST_COLUMNS]
    table = html_table(used, ([row.get(name) for name in used] for row in rows[:_MOST_ROWS]))
    n_more = len(rows) - _MOST_ROWS
    return table if n_more <= 0 else f"{table}<p>{n_more:,} more rows</p>"


def html_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in HTML; names and values are escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell_text(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value if len(value) <= 2 * _LONGEST_TEXT else f"{value[: 2 * _LONGEST_TEXT]}…"
    return brief_text(value)
