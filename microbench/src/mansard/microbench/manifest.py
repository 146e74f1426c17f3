"""The manifest of a run: enough to repeat it, and to refuse mixing it with another."""

from __future__ import annotations

import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from mansard.core.power_mode import core_count_mode
from mansard.core.records import Manifest
from mansard.device.meters.energy import window_energy
from mansard.device.meters.meter import Meter, Meters
from mansard.device.meters.sampler import Sampler
from mansard.microbench.plan import Plan

IDLE_WINDOW_S = 2.0  # of RAPL's 1 ms updates: 2000 of them, well under 1 % of a step's error
_RUNNING = "the run has not finished yet, or was interrupted"


def utc_now() -> str:
    """The time now, in ISO 8601 with seconds, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def new_manifest(plan: Plan, meters: Meters) -> Manifest:
    """The manifest of a run that starts now; measures the idle power where it can."""
    commit = _commit()
    idle_power_w = _idle_power_w(meters.found)
    rules = [meter.total_rule for meter in meters.found if meter.total_rule]
    unknown = {
        "image_digest": "measured on the machine itself, not in a container",
        "finished_utc": _RUNNING,
        "finished_monotonic_s": _RUNNING,
    }
    if commit is None:
        unknown["commit"] = "not run from a git checkout"
    if idle_power_w is None:
        unknown["idle_power_w"] = "no meter"
    if not rules:
        unknown["total_rule"] = "no meter"
    return Manifest(
        run_id=plan.run_id,
        tool_version=plan.versions["mansard"],
        commit=commit,
        versions=plan.versions,
        machine=plan.machine,
        mode_requested=plan.mode,
        # On a plain machine the mode is the number of pinned threads, one on each CPU.
        mode_read_back=core_count_mode(len(plan.cpus)),
        plan_hash=plan.plan_hash,
        profile=plan.profile,
        n_trials=len(plan.trials),
        meters=tuple(meter.name for meter in meters.found),
        meters_missing=meters.missing,
        total_rule="; ".join(rules) if rules else None,
        idle_power_w=idle_power_w,
        image_digest=None,
        seed=plan.seed,
        started_utc=utc_now(),
        finished_utc=None,
        started_monotonic_s=time.monotonic(),
        finished_monotonic_s=None,
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


def _idle_power_w(meters: tuple[Meter, ...]) -> float | None:
    if not meters:
        return None
    with Sampler(meters) as sampler:
        start_s = time.monotonic()
        time.sleep(IDLE_WINDOW_S)
        end_s = time.monotonic()
    rails = window_energy(sampler.samples, start_s, end_s)
    return sum(rail.energy_j / rail.window_s for rail in rails)


def _commit() -> str | None:
    folder = Path(__file__).resolve().parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None
