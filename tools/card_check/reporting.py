"""From what came back to the HTML report, the energy fit, and the document of docs/results."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mansard.core.errors import InputError
from tools.card_check import goals
from tools.card_check.energy import RAIL
from tools.card_check.judging import judge
from tools.card_check.published import H200_COSTS, card_of
from tools.card_check.running import ARCHIVE
from tools.card_check.table import Criterion, Line, as_markdown, as_text, counts
from tools.card_check.workfolder import WorkFolder

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.models.energy.fit import Coefficient, EnergyFit

_PICO = 1e-12


def report(folder: Path, into: Path, results: Path) -> int:
    """Unpack, judge, fit, write; returns 1 where a line fails."""
    archive = folder / ARCHIVE
    if not archive.is_file():
        raise InputError(f"there is no {ARCHIVE}", where=str(folder), fix="name what --out named")
    work = unpack(archive, into)
    dataset = _dataset(work)
    lines = judge(work)
    if dataset is not None:
        lines += energy_lines(dataset, work)
        _write_html(dataset, work.path / "report.html")
    # A card in software, or one that did not answer, is no result.
    is_software = (work.read("steps") or {}).get("software") is not None
    place = work.path if is_software or work.gpu() is None else results
    place.mkdir(parents=True, exist_ok=True)
    document = place / f"{_file_name(work)}.md"
    document.write_text(document_of(work, lines), encoding="utf-8")
    print(as_text(lines))
    print(f"written: {document}")
    if dataset is not None:
        print(f"written: {work.path / 'report.html'}")
    return 1 if counts(lines)["FAIL"] else 0


def unpack(archive: Path, into: Path) -> WorkFolder:
    """The results of a run, in a folder called after its card."""
    place = into / "unpacked"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    work = WorkFolder(place / "work")
    target = into / _file_name(work)
    shutil.rmtree(target, ignore_errors=True)
    work.path.rename(target)
    place.rmdir()
    return WorkFolder(target)


def _file_name(work: WorkFolder) -> str:
    gpu = work.gpu()
    card = (work.read("facts") or {}).get("card") or {}
    name = gpu.name if gpu is not None else card.get("name", "")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "card"


def _dataset(work: WorkFolder) -> Dataset | None:
    from mansard.analytics.data.ingest import ingest

    return ingest(work.runs) if any(work.manifests()) else None


def _write_html(dataset: Dataset, path: Path) -> None:
    from mansard.analytics.pages.report.write import write_report

    write_report(dataset, path)


def energy_lines(dataset: Dataset, work: WorkFolder) -> Iterator[Line]:
    """Mansard's energy model fitted to the counter, beside what was published for an H200."""
    from mansard.analytics.models.energy.fit import fit_rails
    from mansard.analytics.models.roofs.roofline import rooflines

    gpu = work.gpu()
    is_same = gpu is not None and card_of(gpu.name) == "H200"
    fits = {roof.run_id: fit_rails(dataset, roof).get(RAIL) for roof in rooflines(dataset)}
    if not any(fits.values()):
        yield Line("energy model", note=f"no trial has energy of {RAIL}")
    for run_id, fit in fits.items():
        if fit is not None:
            n_trials = dataset.trials.filter(run_id=run_id).height
            yield from _fit_lines(fit, f"of a run of {n_trials} trials", is_same=is_same)


def _fit_lines(fit: EnergyFit, of_what: str, *, is_same: bool) -> Iterator[Line]:
    compared = (
        ("energy of an fp32 FLOP", fit.flop_j.get("fp32"), H200_COSTS.flop_j / _PICO, "pJ", _PICO),
        ("energy of a byte of DRAM", _dram(fit), H200_COSTS.byte_j / _PICO, "pJ", _PICO),
        ("constant power", fit.constant_w, H200_COSTS.constant_w, "W", 1.0),
    )
    for name, coefficient, published, unit, factor in compared:
        shown = f"H200: {published:.3g} {unit} (te42kyfo/gpu-benches, by this model)"
        if coefficient is None or coefficient.value is None:
            why = "no such term" if coefficient is None else coefficient.unknown["value"]
            yield Line(name, published=shown, note=f"{of_what}; {why}")
            continue
        value = coefficient.value / factor
        bounds = goals.COSTS_RATIO if is_same else (None, None)
        criterion = Criterion("the published", value / published, *bounds)
        note = "; ".join(filter(None, (of_what, _interval(coefficient, factor))))
        yield Line(name, f"{value:.3g} {unit}", (criterion,), shown, note)


def _dram(fit: EnergyFit) -> Coefficient | None:
    return next((one for level, one in fit.byte_j.items() if level not in {"L1", "L2"}), None)


def _interval(coefficient: Coefficient, factor: float) -> str:
    if coefficient.low is None or coefficient.high is None:
        return ""
    return f"95 %: {coefficient.low / factor:.3g} to {coefficient.high / factor:.3g}"


def document_of(work: WorkFolder, lines: list[Line]) -> str:
    """The document of a card: what it is, the table, what failed, what was not measured."""
    facts: dict[str, Any] = work.read("facts") or {}
    steps = work.read("steps") or {"software": None, "steps": []}
    gpu = work.gpu()
    name = gpu.name if gpu is not None else "a card that did not answer"
    n = counts(lines)
    failed = [line for line in lines if line.verdict == "FAIL"]
    parts = [
        f"# {name}",
        "",
        f"[Card check](../use/card-check.md) of {_day(work)}: "
        f"{n['pass']} lines passed, {n['FAIL']} failed, {n['info']} informational.",
        *(["", "**A card in software: nothing here was measured.**"] if steps["software"] else []),
        "",
        "## The machine",
        "",
        *_fact_rows(facts),
        "",
        "## The table",
        "",
        as_markdown(lines),
        "",
        "## What failed",
        "",
        *([f"- {line.name}: {line.failure or _missed(line)}" for line in failed] or ["Nothing."]),
        "",
        "## What was not measured",
        "",
        *(_not_measured(lines, steps) or ["Nothing was left out."]),
    ]
    return "\n".join(parts) + "\n"


def _missed(line: Line) -> str:
    return "; ".join(str(one) for one in line.criteria if one.is_judged and not one.holds)


def _day(work: WorkFolder) -> str:
    started = [manifest.started_utc for _, manifest in work.manifests()]
    return min(started)[:10] if started else datetime.now(timezone.utc).date().isoformat()


def _fact_rows(facts: dict[str, Any]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    nvml = facts.get("nvml") or {}
    rows = {
        **_card_rows(facts),
        "driver": nvml.get("SystemGetDriverVersion", nvml.get("why", "not asked")),
        "Mansard, Python": f"{facts.get('mansard')}, {facts.get('python')}",
        "libraries": ", ".join(f"{k} {v}" for k, v in (facts.get("libraries") or {}).items()),
        "notes": "; ".join(facts.get("notes") or ()) or "none",
    }
    for name, value in rows.items():
        yield f"| {name} | {value} |"


def _card_rows(facts: dict[str, Any]) -> dict[str, str]:
    if not facts.get("card"):
        return {"card": facts.get("why", "the step of the facts did not end")}
    import msgspec

    from mansard.core.records import Gpu

    gpu = msgspec.convert(facts["card"], Gpu)

    def known(value: float | None, factor: float, unit: str) -> str:
        return "unknown" if value is None else f"{value / factor:.0f} {unit}"

    memory = (
        known(gpu.memory_bytes, 2**30, "GiB"),
        known(gpu.memory_bus_bits, 1, "bit"),
        known(gpu.memory_hz, 1e6, "MHz"),
    )
    return {
        "compute capability, SMs": f"{gpu.sm / 10:.1f}, {gpu.n_sms}",
        "memory": ", ".join(memory),
        "L2": known(gpu.l2_bytes, 2**20, "MiB"),
        "CUDA of driver and runtime": f"{gpu.driver_cuda}, {gpu.runtime_cuda}",
    }


def _not_measured(lines: list[Line], steps: dict[str, Any]) -> list[str]:
    left = [
        f"- step {one['name']}: {one['status']}, {one['why']}"
        for one in steps["steps"]
        if one["status"] != "done"
    ]
    return left + [f"- {line.name}: {line.note}" for line in lines if not line.value and line.note]
