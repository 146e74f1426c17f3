"""What MkDocs does with Mansard's documents beside building their pages.

Links that lead out of ``docs/`` lead to the repository's files on a code host. The site does not
hold these, so there they lead to the repository's address, where mkdocs.yml has one
(``extra.repository``); else the words stay and the link goes. A file that does not exist is a
warning, which ``--strict`` refuses. The same address replaces CLONE_URL in commands.

Equations become MathML. Tables of words are marked as lists for narrow pages. An entry of the
navigation that is a folder stands for its pages, under their titles.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # MkDocs loads this file by itself
    sys.path.insert(0, str(ROOT))
from tools.site.equations import with_equations  # noqa: E402 - needs the line above
from tools.site.lists import with_lists  # noqa: E402

_LINK = re.compile(
    r"(?<!!)\[(?P<words>[^\]]+)\]\((?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")
_LOG = logging.getLogger("mkdocs.hooks.repository")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation with the pages of its folders; MkDocs calls it by this name."""
    if config.nav:
        config.nav = expanded(config.nav, Path(config.docs_dir))
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's text as the site has it; MkDocs calls it by this name."""
    del files
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent
    address = repository(config)
    text = with_plain_pipes(with_repository_links(markdown, folder, docs, address))
    return with_equations(with_clone_address(text, address))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's HTML as the site has it; MkDocs calls it by this name."""
    del page, config, files
    return with_lists(html)


def expanded(nav: Any, docs: Path) -> Any:
    """``nav`` with a list of pages, its index first, for each folder that it names."""
    if isinstance(nav, list):
        return [expanded(each, docs) for each in nav]
    if isinstance(nav, dict):
        return {title: expanded(each, docs) for title, each in nav.items()}
    if not nav.endswith("/"):
        return nav
    pages = sorted((docs / nav).glob("*.md"), key=lambda page: (page.stem != "index", page.stem))
    return [page.relative_to(docs).as_posix() for page in pages]


def with_repository_links(markdown: str, folder: Path, docs: Path, address: str | None) -> str:
    """``markdown`` of a page in ``folder``, its links out of ``docs`` below ``address``.

    Without an address only their words stay.
    """

    def rewritten(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if target.is_relative_to(docs.resolve()):
            return link[0]
        if not target.exists():
            _LOG.warning("%s: a link to %s, which does not exist", folder, link["path"])
        if address is None:
            return link["words"]
        path = target.relative_to(docs.resolve().parent).as_posix()
        return f"[{link['words']}]({address}/blob/main/{path}{link['anchor'] or ''})"

    return _LINK.sub(rewritten, markdown)


def with_plain_pipes(markdown: str) -> str:
    r"""``markdown`` without ``\\|`` in code of tables: code hosts need it, MkDocs prints it."""
    return _ROW.sub(
        lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), markdown
    )


def with_clone_address(markdown: str, address: str | None) -> str:
    """``markdown`` with ``address`` for CLONE_URL, as ``git clone CLONE_URL`` has it."""
    return markdown if address is None else markdown.replace("CLONE_URL", address)


def repository(config: MkDocsConfig) -> str | None:
    """The address of the repository, which mkdocs.yml names once; None where it names none."""
    address = config.extra.get("repository")
    return str(address).rstrip("/") if address else None
