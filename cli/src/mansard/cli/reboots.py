"""Modes that need a reboot: found out before anything is measured, and left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mansard.cli.voice import Voice
from mansard.core.errors import DeviceError

if TYPE_CHECKING:
    from mansard.cli.measuring import ModePlan
    from mansard.device.controller.controller import Holding


def without_reboots(plans: Sequence[ModePlan], held: Holding, voice: Voice) -> list[ModePlan]:
    """The plans whose modes can be set now and left again; raises DeviceError if none is left.

    A mode that switches SMs on or off can be set only until CUDA has run, and once it has
    run in that mode only a reboot leads back: on the GPU such a mode is not even tried.
    """
    left_out = dict(held.needing_reboot([each.plan.mode for each in plans if each.n_missing]))
    for each in plans:
        gpu, n_sms = each.plan.gpu, each.plan.mode.n_sms
        if gpu is not None and n_sms is not None and n_sms != gpu.n_sms and each.n_missing:
            words = f"it has {n_sms} SMs on, now there are {gpu.n_sms}"
            left_out.setdefault(each.plan.mode.name, words)
    for name, words in left_out.items():
        voice.note(f"{name}: left out, it needs a reboot: {words}")
    kept = [
        each
        for each in plans
        if each.plan.mode.kind != "nvpmodel" or each.plan.mode.name not in left_out
    ]
    if not kept:
        raise DeviceError(
            "every mode asked for needs a reboot",
            fix="set one with 'sudo nvpmodel -m', reboot, and measure the board as it is then",
        )
    return kept
