"""Results of functions of the façade: records and tuples of records, which show themselves.

``repr`` has a few lines, a notebook shows a table, ``to_frame`` gives a Polars frame and ``plot``
a chart of Altair. The values stay what they are: a tuple of records, or a record with its fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mansard.core.brief import Brief, cells, fields, html_rows, rows_text
from mansard.core.errors import UsageError

if TYPE_CHECKING:
    from mansard.analytics.data.frames import Frame
    from mansard.analytics.pages.figures.charting import Chart

RecordT_co = TypeVar("RecordT_co", covariant=True)


class Result(Brief, msgspec.Struct, frozen=True):
    """A record that a function returns. ``as_rows`` has the rows of its frame and its table."""

    def records(self) -> Sequence[Any]:
        """The records of its first field that has any; else the record itself."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, tuple) and value and hasattr(value[0], "__struct_fields__"):
                return value
        return (self,)

    def as_rows(self) -> list[dict[str, object]]:
        """A dictionary for each of ``records``."""
        return rows_of(self.records())

    def drawn(self) -> Sequence[Any]:
        """The records that ``plot`` draws."""
        return self.records()

    def to_frame(self) -> Frame:
        """A Polars frame of the rows."""
        return frame_of(self.as_rows())

    def plot(self) -> Chart:
        """Draw the figure of the result: an Altair chart, which a notebook shows.

        Raises UsageError for a result without a figure.

        >>> import mansard as m
        >>> chart = m.score("resnet18").plot()
        >>> chart.to_dict()["mark"]["type"]
        'point'
        """
        return chart_of(self.drawn())

    def __repr__(self) -> str:
        records = self.records()
        others = {name: value for name, value in fields(self).items() if value is not records}
        return rows_text(type(self).__name__, self.as_rows(), {} if records == (self,) else others)

    def _repr_html_(self) -> str:
        return html_rows(self.as_rows())


class Records(tuple[RecordT_co, ...]):
    """A tuple of records, with the same methods as ``Result``."""

    __slots__ = ()

    def __repr__(self) -> str:
        kinds = {type(record).__name__ for record in self}
        kind = kinds.pop() if len(kinds) == 1 else "object"
        return rows_text(f"Records[{kind}]", rows_of(self))

    def _repr_html_(self) -> str:
        return html_rows(rows_of(self))

    def to_frame(self) -> Frame:
        """A Polars frame with a row for each record."""
        return frame_of(rows_of(self))

    def plot(self) -> Chart:
        """A chart of Altair. Raises UsageError for records without a figure."""
        return chart_of(self)


def as_result(value: Any) -> Any:
    """``value``; a tuple of records as ``Records``."""
    are_records = type(value) is tuple and all(hasattr(one, "__struct_fields__") for one in value)
    return Records(value) if are_records else value


def rows_of(records: Sequence[Any]) -> list[dict[str, object]]:
    """The fields of each record as a row."""
    return [cells(record) for record in records]


def frame_of(rows: Sequence[dict[str, object]]) -> Frame:
    """A Polars frame of rows."""
    from mansard.analytics.data.frames import frame_of_rows

    return frame_of_rows(rows)


def chart_of(records: Sequence[Any]) -> Chart:
    """The figures of ``records`` as a chart of Altair; UsageError where none has a figure."""
    from mansard.analytics.pages.tables.record_charts import charts

    drawn = charts(records)
    if drawn is None:
        kind = type(records[0]).__name__ if records else "an empty result"
        raise UsageError(f"{kind} has no figure", fix="plot columns of to_frame()")
    return drawn
