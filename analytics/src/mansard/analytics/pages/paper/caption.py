"""The caption of a figure: what it shows, and where its values come from."""

from __future__ import annotations

from collections.abc import Iterator

from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.published.store import device_names
from mansard.analytics.data.quantities import counted
from mansard.analytics.models.roofs.published_rooflines import is_published
from mansard.analytics.pages.paper.content import Content
from mansard.analytics.pages.results import Results
from mansard.core.records import Manifest
from mansard.core.text import capitalized, listed
from mansard.core.version import VERSION

DRAWN_BY = f"Drawn by Mansard {VERSION}"  # in each file of a figure, so that it may be replaced


def caption(content: Content, results: Results | None) -> str:
    """Sentences on lines of their own; ``results``: None of a schedule without runs."""
    lines = [f"{content.title}.", *content.sentences, *_place(content)]
    lines.append(f"Values: {', '.join(in_order(list(content.sources)))}.")
    samples = [counted(n, noun) for noun, n in content.n_samples.items() if n]
    lines += [f"n: {listed(samples)}."] if samples else []
    if results is not None:
        lines += _provenance(content, results)
    return "\n".join([*(line.replace("\u00a0", " ") for line in lines), f"{DRAWN_BY}."])


def _place(content: Content) -> Iterator[str]:
    if content.device:
        mode = f", power mode {display_name(content.mode)}" if content.mode else ""
        yield f"Device: {display_name(content.device)}{mode}."


def _provenance(content: Content, results: Results) -> Iterator[str]:
    runs = [run for run in results.dataset.all_manifests if run.run_id in content.run_ids]
    is_modelled = set(content.sources) <= {"modelled"}
    if runs:
        yield system_text(runs)
        made_up = {roof.run_id for roof in results.roofs if roof.source == "simulated"}
        simulated = [run for run in runs if run.machine.is_simulated or run.run_id in made_up]
        measured = [run for run in runs if run not in simulated]
        for how, of_kind in (("measured", measured), ("simulated", simulated)):
            if of_kind:
                yield run_text(of_kind, f"Modelled from runs {how}" if is_modelled else how)
        yield f"Runs: {', '.join(display_name(run.run_id) for run in runs)}."
    if "published" in content.sources or any(map(is_published, content.run_ids)):
        how = "Modelled from ceilings published" if is_modelled else "Published"
        yield from publication_text(results, content.device, content.mode, how)


def publication_text(
    results: Results, device: str, mode: str, how: str = "Published"
) -> Iterator[str]:
    """``Published in:`` and the citations of ``device`` and of ``mode``, if there are any; ""
    are all modes."""
    names = device_names(results.published)
    citations = [
        row.citation
        for row in results.published.rows
        if names.get((row.device, row.table_id)) == device and mode in {"", row.mode.name}
    ]
    if citations:
        yield f"{how} in: {'; '.join(in_order([display_text(one) for one in citations]))}."


def run_text(runs: list[Manifest], how: str) -> str:
    """``Measured 2026-11-28 (UTC) by Mansard 1.0.``"""
    days = sorted({run.started_utc[:10] for run in runs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    versions = in_order([run.tool_version for run in runs])
    return f"{capitalized(how)} {when} (UTC) by Mansard {listed(versions)}."


def system_text(runs: list[Manifest]) -> str:
    """``JetPack 6.1 (L4T 36.4.0), driver 540.4.0.``; of a plain machine its kernel's release."""
    words: list[str] = []
    for run in runs:
        machine, board = run.machine, run.machine.board
        if board is not None and board.l4t:
            jetpack = f"JetPack {board.jetpack} " if board.jetpack else ""
            words.append(f"{jetpack}(L4T {board.l4t})".strip())
        else:
            words.append(f"{machine.operating_system}, kernel {machine.kernel_release}")
        words += [f"driver {machine.driver}"] if machine.driver else []
        words += [f"CUDA {machine.cuda}"] if machine.cuda else []
    return f"System: {', '.join(display_name(word) for word in dict.fromkeys(words))}."
