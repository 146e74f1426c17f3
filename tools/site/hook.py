"""What MkDocs does with the links of the documents that lead out of ``docs/``.

On a code host they lead to the repository's files. The site does not hold these, so there they lead
to the repository's address, where pyproject.toml has one (``project.urls.Repository``); else the
words stay and the link goes. A file that does not exist is a warning, which ``--strict`` refuses.
"""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<!!)\[(?P<words>[^\]]+)\]\((?P<path>(?:\.\./)+[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_LOG = logging.getLogger("mkdocs.hooks.repository")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's text with every link out of ``docs/`` rewritten; MkDocs calls it by this name."""
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent
    return with_repository_links(markdown, folder, docs, repository())


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


def repository() -> str | None:
    """The address of the repository that pyproject.toml names; None where it names none."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        urls: dict[str, str] = tomllib.load(file)["project"].get("urls", {})
    address = urls.get("Repository") or urls.get("Source")
    return address.rstrip("/") if address else None
