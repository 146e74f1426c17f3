"""The manifest of a run: enough to repeat it, and to refuse mixing it with another."""

from __future__ import annotations

import time

import msgspec

from mansard.core.records import EnergyWindow, Manifest
from mansard.core.version import read_commit
from mansard.measuring.events import Started
from mansard.measuring.instruments import utc_now
from mansard.measuring.kind import Job, find_kind

_RUNNING = "the run has not finished yet, or was interrupted"


class ContainerImage(msgspec.Struct, frozen=True):
    """The container image that a measuring process runs in."""

    name: str
    digest: str  # sha256:…


def new_manifest(job: Job, started: Started, image: ContainerImage | None) -> Manifest:
    """The manifest of a run that starts now, by what its measuring process said of itself."""
    plan, commit, total = job.plan, read_commit(), started.total
    unknown = {"finished_utc": _RUNNING, "finished_monotonic_s": _RUNNING}
    unknown["idle"] = _RUNNING if started.meters else "no meter"
    if image is None:
        reason = "measured on the machine itself, not in a container"
        unknown |= dict.fromkeys(("image", "image_digest"), reason)
    if started.gpu is None:
        unknown["gpu"] = started.why_no_gpu
    if commit is None:
        unknown["commit"] = "not run from a git checkout"
    if total is None:
        unknown |= dict.fromkeys(("total_rails", "total_rule", "boundary"), started.why_no_total)
    return Manifest(
        run_id=plan.run_id,
        kind=find_kind(plan.kind).name,
        tool_version=plan.versions["mansard"],
        commit=commit,
        versions=plan.versions,
        machine=plan.machine,
        mode_requested=plan.mode,
        mode_read_back=job.read_back,
        plan_hash=plan.plan_hash,
        profile=plan.profile,
        n_trials=len(plan.trials),
        meters=started.meters,
        meters_missing=started.meters_missing,
        total_rails=None if total is None else total.rails,
        total_rule=None if total is None else total.rule,
        boundary=None if total is None else total.boundary,
        idle=None,
        gpu=started.gpu,
        image=None if image is None else image.name,
        image_digest=None if image is None else image.digest,
        seed=plan.seed,
        started_utc=utc_now(),
        finished_utc=None,
        started_monotonic_s=time.monotonic(),
        finished_monotonic_s=None,
        label=plan.label,
        host=plan.host,
        unknown=unknown,
    )


def finished(manifest: Manifest, *, resumed: bool) -> Manifest:
    """The same manifest, ended now.

    The monotonic clock starts anew with every boot, so the end of a run that was
    resumed has no place on the clock of its start.
    """
    unknown = {
        name: reason
        for name, reason in manifest.unknown.items()
        if name not in {"finished_utc", "finished_monotonic_s"}
    }
    if resumed:
        unknown["finished_monotonic_s"] = "the run was resumed, perhaps after another boot"
    return msgspec.structs.replace(
        manifest,
        finished_utc=utc_now(),
        finished_monotonic_s=None if resumed else time.monotonic(),
        unknown=unknown,
    )


def resumed_in(manifest: Manifest, image: ContainerImage | None) -> Manifest:
    """The same manifest, its digest unknown where the run goes on in another image.

    Versions and kernels are the same all the same: else the run would have another id.
    """
    digest = None if image is None else image.digest
    if manifest.image_digest == digest:
        return manifest
    before = manifest.image_digest or manifest.unknown["image_digest"]
    reason = f"begun in: {before}; resumed in: {digest or 'no container'}"
    unknown = {**manifest.unknown, "image_digest": reason}
    return msgspec.structs.replace(manifest, image_digest=None, unknown=unknown)


def with_idle(manifest: Manifest, window: EnergyWindow) -> Manifest:
    """The same manifest with one more idle window."""
    unknown = {name: reason for name, reason in manifest.unknown.items() if name != "idle"}
    return msgspec.structs.replace(manifest, idle=(*(manifest.idle or ()), window), unknown=unknown)


def without_idle(manifest: Manifest, reason: str) -> Manifest:
    """The same manifest with the reason why idle power could not be measured."""
    if manifest.idle is not None:
        return manifest
    return msgspec.structs.replace(manifest, unknown={**manifest.unknown, "idle": reason})
