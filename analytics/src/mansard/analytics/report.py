"""One page that holds everything and needs nothing: no network, no other file.

The page's policy allows the page's own two scripts by their hashes and nothing
else, so that a name which slipped through every escape still could not run.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from mansard.analytics import ceiling_tables, figures, network_tables, sections
from mansard.analytics.dataset import Dataset
from mansard.analytics.meters import power_table
from mansard.analytics.names import in_order, shown, shown_long
from mansard.analytics.predict import NO_ENERGY
from mansard.analytics.results import Results, compute
from mansard.analytics.theme import THEMES, vega_config
from mansard.core.files import make_folder, write_atomic
from mansard.core.version import VERSION

_TEMPLATES = Path(__file__).parent / "templates"


def write_report(dataset: Dataset, path: Path, results: Results | None = None) -> Path:
    """Write the report of ``dataset`` to ``path`` whole or not at all; returns ``path``.

    The same dataset gives the same page. Raises StorageError where the page cannot
    be written.
    """
    page = render(results or compute(dataset))
    make_folder(path.parent)
    write_atomic(path, page.encode())
    return path


def render(results: Results) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(_context(results))


def policy(*scripts: str) -> str:
    """The content policy that allows exactly these inline scripts."""
    hashes = " ".join(f"'sha256-{_sha256(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _context(results: Results) -> dict[str, Any]:
    # The stub of vl-convert forgets that the snippet has a default.
    bundle = _script(vl_convert.javascript_bundle())  # type: ignore[call-arg]
    boot = _script((_TEMPLATES / "report.js").read_text())
    machines = in_order([shown(roof.machine) for roof in results.roofs])
    return {
        "title": f"Rooflines of {' and '.join(machines)}",
        "machines": machines,
        "policy": policy(bundle, boot),
        "bundle": Markup(bundle),  # noqa: S704 - checked by _script
        "boot": Markup(boot),  # noqa: S704 - checked by _script
        "style": Markup((_TEMPLATES / "report.css").read_text()),  # noqa: S704 - our own file
        "themes": figures.json_markup({name: vega_config(theme) for name, theme in THEMES.items()}),
        "version": VERSION,
        "cards": ceiling_tables.mode_cards(results),
        "peaks": ceiling_tables.peak_table(results),
        "bandwidths": ceiling_tables.bandwidth_table(results),
        "ridges": ceiling_tables.ridge_table(results),
        "roofline": figures.roofline_figure(results),
        "staircase": figures.staircase_figure(results),
        "chains": figures.chain_figure(results),
        "networks": network_tables.network_table(results),
        "measurements": network_tables.measurement_table(results),
        "details": network_tables.network_details(results),
        "machine_tables": sections.machine_tables(results),
        "protocol": sections.protocol_facts(results),
        "traffic": sections.traffic_facts(results),
        "disturbed": sections.disturbed_table(results),
        "unused": sections.unused(results),
        "power": power_table(results),
        "meters": sections.meter_facts(results),
        "no_energy": NO_ENERGY,
        "provenance": sections.provenance_table(results),
        "notes": [shown_long(note) for note in results.dataset.notes],
        "started": min(manifest.started_utc for manifest in results.dataset.manifests)[:10],
    }


def _script(text: str) -> str:
    """A script as the browser will hash it; nothing in it may end its own element."""
    normal = text.replace("\r\n", "\n").replace("\r", "\n")
    return normal.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
