"""The pages of the commands say what the command line says."""

from __future__ import annotations

import os

from tools.site.commands import FOLDER, command_pages, with_what_is_by_hand, write

# With MANSARD_REWRITE=1 the pages are written again, not compared.
_REWRITES = bool(os.environ.get("MANSARD_REWRITE"))


def test_every_command_has_its_page() -> None:
    pages = command_pages()
    if _REWRITES:
        write(pages)
    assert sorted(page.name for page in FOLDER.glob("*.md")) == sorted(pages)
    stale = [
        name
        for name, made in pages.items()
        if (FOLDER / name).read_text("utf-8") != with_what_is_by_hand(made, FOLDER / name)
    ]
    assert stale == [], "MANSARD_REWRITE=1 pytest tests/documents/test_command_pages.py mends it"


def test_every_page_has_examples() -> None:
    pages = [page for page in FOLDER.glob("*.md") if page.name != "index.md"]
    assert [page.name for page in pages if "\n```sh\n" not in page.read_text("utf-8")] == []
