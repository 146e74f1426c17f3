"""The site of the documents: no warning, no dead link, and nothing from another host."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools.site.hook import expanded, with_clone_address, with_repository_links
from tools.site.lists import with_lists

pytest.importorskip("material", reason="the extra docs builds the site")

ROOT = Path(__file__).resolve().parents[2]
# What a browser loads by itself; an <a> it does not.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_CSS_URL = re.compile(r"url\((?!data:)[\"']?(?P<url>[^)\"']+)|@import\s+[\"'](?P<sheet>[^\"']+)")


class _Links(HTMLParser):
    """Targets of a page: what it links to, what it loads, and where a link can lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.linked: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        if tag == "a" and found.get("href"):
            self.linked.append(str(found["href"]))
        value = found.get(_LOADED.get(tag, ""))
        if value and found.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr
    return folder


@cache
def _links(page: Path) -> _Links:
    return _Links(page.read_text("utf-8"))


def test_no_link_is_dead(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    dead = [
        f"{page.relative_to(site)}: {link}"
        for page in pages
        if page.name != "404.html"  # its links begin at the root of a server
        for link in (*_links(page).linked, *_links(page).loaded)
        if not _is_there(page, link)
    ]
    assert dead == []


def _is_there(page: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.exists():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target.suffix != ".html" or anchor in _links(target).anchors


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = {
        link: page.name
        for page in site.rglob("*.html")
        for link in _links(page).loaded
        if urlsplit(link).netloc
    }
    assert loaded == {}
    sheets = {
        sheet.name: _CSS_URL.findall(sheet.read_text("utf-8")) for sheet in site.rglob("*.css")
    }
    assert sheets
    assert not [each for found in sheets for each in found if "//" in "".join(each)]


def test_search_works_without_a_server(site: Path) -> None:
    index = (site / "search/search_index.js").read_text("utf-8")
    assert index.startswith("var __index = ")
    assert "nvpmodel" in index


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_of_the_repository_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text)
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_a_link_out_of_the_documents() -> None:
    docs = ROOT / "docs"
    text = "[a](../../CONTRIBUTING.md#rules) [b](../use/bench.md) ![c](../images/report.png)"
    kept = "[b](../use/bench.md) ![c](../images/report.png)"
    assert with_repository_links(text, docs / "understand", docs, None) == f"a {kept}"
    there = "[a](https://host/we/mansard/blob/main/CONTRIBUTING.md#rules)"
    address = "https://host/we/mansard"
    assert with_repository_links(text, docs / "understand", docs, address) == f"{there} {kept}"


def test_the_address_of_the_clone_is_set_once() -> None:
    text = "git clone CLONE_URL mansard"
    assert with_clone_address(text, None) == text
    assert with_clone_address(text, "https://host/m") == "git clone https://host/m mansard"
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    clones = [
        word for page in pages for word in re.findall(r"git clone (\S+)", page.read_text("utf-8"))
    ]
    assert set(clones) == {"CLONE_URL"}


def test_a_folder_in_the_navigation_stands_for_its_pages(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("z.md", "b.md", "index.md"):
        (tmp_path / "a" / name).touch()
    pages = ["a/index.md", "a/b.md", "a/z.md"]
    assert expanded([{"Home": "i.md"}, {"A": "a/"}], tmp_path) == [{"Home": "i.md"}, {"A": pages}]


def _table(heads: list[str], *rows: list[str]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def test_tables_of_words_become_lists() -> None:
    options = _table(["option", "meaning"], ["<code>--mode</code>", "power mode [default: 15W]"])
    assert with_lists(options) == options.replace("<table>", "<table data-list>")
    units = _table(["option", "unit &amp; <em>size</em>", ""], ["--max-power", "W", "a limit"])
    labelled = units.replace("<table>", "<table data-list>").replace(
        "<td>W</td>", '<td data-label="unit &amp; size">W</td>'
    )
    assert with_lists(units) == labelled


def test_tables_of_figures_stay_tables() -> None:
    figures = _table(["step", "CPU s", "memory"], ["load", "1.2", "30 MB"], ["score", "0.4", "–"])
    wide = _table(["a", "b", "c", "d", "e"], ["of", "words", "in", "five", "columns"])
    assert with_lists(figures + wide) == figures + wide
