"""Tables as Markdown, for comments on merge requests; markup in names is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mansard.cli.terminal import plain
from mansard.core.table import Table
from mansard.core.text import printable

# What has a meaning in the Markdown of GitHub and GitLab: HTML, code, emphasis, links, addresses,
# cells, and references to people and issues. Character references make them text.
_MARKUP = re.compile(
    r"[&<>`*\[\]\\|~#@!$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=\S)|(?<=www)\.", re.IGNORECASE
)
_LONGEST = 300


def escaped(text: str) -> str:
    """``text`` in one line of Markdown that shows it as it is."""
    line = printable(plain(text), _LONGEST)
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", line)


def markdown_lines(tables: Iterable[Table], sentences: Iterable[str]) -> Iterator[str]:
    """The sentences, then each table under its title."""
    for sentence in sentences:
        yield f"**{escaped(sentence)}**"
        yield ""
    for table in tables:
        yield f"#### {escaped(table.title)}"
        yield ""
        yield _row(table.columns)
        yield _row(["---"] * len(table.columns))
        for row in table.rows:
            yield _row([escaped(cell) for cell in row])
        yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
