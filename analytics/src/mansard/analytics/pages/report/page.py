"""The frame of every page: one file with its own scripts, which loads nothing.

The page's policy allows the page's own two scripts by their hashes and nothing
else, so that a name which slipped through every escape still could not run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from mansard.analytics.data.quantities import counted
from mansard.analytics.pages.figures.charting import THEMES, vega_config
from mansard.analytics.pages.figures.figure import json_markup
from mansard.analytics.pages.figures.parameters import WORDING, Chosen, Start
from mansard.analytics.pages.figures.tables import condensed
from mansard.analytics.pages.report import scripts
from mansard.core.storage.files import make_folder, write_atomic
from mansard.core.text import capitalized
from mansard.core.version import VERSION

_TEMPLATES = Path(__file__).parent / "templates"
_SCRIPTS = ("save.js", "report.js")  # in this order, as one
MOST_COLUMNS = 60  # of a table whose numbers stand at the right
_NUMERIC = "".join(
    f".n{at} tr>:nth-child({at}){{text-align:right}}\n" for at in range(1, MOST_COLUMNS + 1)
)


def write_page(
    template: str | Path, context: Mapping[str, Any], path: Path, within: Path | None = None
) -> Path:
    """Write the page to ``path``, whole or not at all; returns ``path``. Raises StorageError.

    ``template``: one of ours by its name, or the path of another that extends one of ours.
    """
    text = render(template, context)
    make_folder(path.parent, within)
    write_atomic(path, text.encode(), within)
    return path


def render(template: str | Path, context: Mapping[str, Any]) -> str:
    """The page ``template`` with ``context``, its style and its scripts."""
    source = _TEMPLATES / template
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader((source.parent, _TEMPLATES)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breakable": _breakable,
        "code": _code,
        "capitalize_first": capitalized,
        "condensed": condensed,
        "counted": counted,
    }
    return environment.get_template(source.name).render({**_common(), **context})


def _code(text: str) -> Markup:
    """``text`` with what stands in `backticks` as code, all of it escaped."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(marked)  # noqa: S704 - escaped above


def _breakable(name: str) -> Markup:
    """``name`` escaped, with line breaks allowed after underscores."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))  # noqa: S704 - escaped


def choice(chosen: Chosen, starts: Mapping[str, Start]) -> Markup:
    """What the page shows first, in all and of each device, as JSON for report.js."""
    of_devices = {device: start._asdict() for device, start in starts.items()}
    return json_markup({"chosen": asdict(chosen), "starts": of_devices})


def _common() -> dict[str, Any]:
    bundle = _script(scripts.bundle())
    boot = _script("".join((_TEMPLATES / name).read_text() for name in _SCRIPTS))
    return {
        "policy": policy(bundle, boot),
        "bundle": Markup(bundle),  # noqa: S704 - checked by _script
        "boot": Markup(boot),  # noqa: S704 - checked by _script
        "style": Markup((_TEMPLATES / "report.css").read_text() + _NUMERIC),  # noqa: S704 - ours
        "themes": json_markup({name: vega_config(theme) for name, theme in THEMES.items()}),
        "version": VERSION,
        "choice": choice(Chosen(), {}),
        "wording": json_markup(WORDING),
        "tables": json_markup([]),
    }


def policy(*scripts: str) -> str:
    """The content policy that allows exactly these inline scripts."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _script(text: str) -> str:
    """A script as the browser will hash it; nothing in it may end its own element."""
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    return normal.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
