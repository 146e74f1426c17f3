"""A page as a reader of its file sees it: elements, text, and the data of each chart."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """What a browser with scripts sees: elements, text outside scripts, and the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(re.sub(r"<noscript>.*?</noscript>", "", text, flags=re.DOTALL))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).replace("\u00a0", " ").split())

    def attribute(self, tag: str, name: str) -> list[str | None]:
        return [attrs[name] for found, attrs in self.tags if found == tag and name in attrs]


def specs(page: Page) -> dict[str, dict[str, Any]]:
    """The specification of each chart by its name, in the order of the page."""
    return {
        name.removesuffix("-spec"): json.loads(script)
        for name, script in _scripts(page).items()
        if name.endswith("-spec")
    }


def chart_rows(page: Page, chart: str) -> list[dict[str, Any]]:
    """The rows that ``chart`` draws, of all its data, as report.js puts them together."""
    pool = json.loads(_scripts(page)["datasets"])
    return [row for name in specs(page)[chart]["datasets"] for row in _rows(pool[name])]


def _rows(data: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {
        name: [column["words"][at] for at in column["at"]] if isinstance(column, dict) else column
        for name, column in data["columns"].items()
    }
    return [{name: column[at] for name, column in columns.items()} for at in range(data["n"])]


def _scripts(page: Page) -> dict[str, str]:
    tags = [attrs for tag, attrs in page.tags if tag == "script"]
    return {
        str(attrs["id"]): script
        for attrs, script in zip(tags, page.scripts, strict=True)
        if "id" in attrs
    }
