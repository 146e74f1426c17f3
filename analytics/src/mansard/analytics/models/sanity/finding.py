"""What is wrong with measurements, and which answers rest on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import polars as pl

from mansard.analytics.data.quantities import NBSP
from mansard.core.records import Record

Subject = Literal["samples", "ceilings", "kernels", "levels", "limits", "modes", "energy"]
Basis = Literal["roofs", "times", "energy"]


class Finding(Record, frozen=True, kw_only=True):
    """One thing that cannot be, or that says little, with its numbers.

    ``is_serious``: no recommendation rests on it. ``basis``: what it is about: the roofs of the
    device, the measured times of ``networks``, or the costs of energy of the device.
    """

    subject: Subject
    is_serious: bool
    basis: Basis
    device: str
    networks: dict[str, str]  # of the basis "times": what is wrong with each, in a line
    what: str
    fix: str

    @property
    def reason(self) -> str:
        """What is wrong and what helps, without the device."""
        return f"{self.what}; {self.fix}".replace(NBSP, " ")

    @property
    def text(self) -> str:
        """All of it in a line."""
        return f"{self.device}: {self.reason}"

    def is_about(self, networks: Collection[str]) -> bool:
        """Whether it is about one of ``networks``, or about all networks of its device."""
        return self.basis != "times" or not set(networks).isdisjoint(self.networks)


def refusals(
    findings: Iterable[Finding],
    predictions: pl.DataFrame,
    scored: Collection[str],
    *,
    needs_energy: bool,
) -> Mapping[tuple[str, str], str]:
    """Why nothing may be recommended, by device and network; empty where all is well.

    ``predictions``: PREDICTION_SCHEMA; those whose score_id is in ``scored`` rest on roofs, the
    others on measured times. ``needs_energy``: whether energy or power decides, or is limited.
    """
    serious = [finding for finding in findings if finding.is_serious]
    if not serious:
        return {}
    by_roofs = pl.col("score_id").is_in(list(scored))
    rows = predictions.group_by("device", "network").agg(by_roofs=by_roofs.any())
    reasons: dict[tuple[str, str], str] = {}
    for device, network, rests_on_roofs in rows.iter_rows():
        for finding in serious:
            is_concerned = {
                "roofs": rests_on_roofs,
                "times": finding.is_about([network]),
                "energy": rests_on_roofs and needs_energy,
            }[finding.basis]
            if finding.device == device and is_concerned:
                why = finding.networks.get(network, finding.reason).replace(NBSP, " ")
                reasons.setdefault((device, network), why)
    return reasons
