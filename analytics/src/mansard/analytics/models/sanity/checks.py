"""Whether what was measured and published can be true: all findings, the serious ones first."""

from __future__ import annotations

from collections.abc import Iterator

from mansard.analytics.data.names import device_labels
from mansard.analytics.data.published.doubts import hardware_limit, module_called, unit_of
from mansard.analytics.data.published.store import Published, device_names
from mansard.analytics.models.predict.models import Models
from mansard.analytics.models.sanity.finding import Finding
from mansard.analytics.models.sanity.modes import rate_findings, time_findings
from mansard.analytics.models.sanity.runs import MOST_OVER, above, run_findings
from mansard.analytics.models.scaling.coefficients import newest_runs


def find_faults(models: Models) -> tuple[Finding, ...]:
    """What is wrong with the measurements of the devices of ``models``, the serious first.

    Of several runs in one mode that which counts is looked at. The thresholds are those of
    docs/understand/model.md; healthy measurements have no finding.
    """
    manifests = models.dataset.manifests
    counted = {manifest.run_id: manifest for manifest in newest_runs(manifests)}
    devices = device_labels(models.dataset.all_manifests)
    devices |= {each.run_id: each.machine for each in models.roofs if each.source == "published"}
    roofs = [roof for roof in models.roofs if roof.run_id in counted or roof.source == "published"]
    found = [
        *run_findings(roofs, devices, models.dataset.trials, counted, models.energies),
        *_published_findings(models.published),
        *rate_findings(models.modes, models.coefficients),
        *time_findings(models.modes, models.observations),
    ]
    own = [each for each in found if each.device in models.devices]
    return tuple(sorted(own, key=lambda each: not each.is_serious))


def _published_findings(published: Published) -> Iterator[Finding]:
    """Published rates that their hardware cannot reach, the worst of each device."""
    names = device_names(published)
    worst: dict[str, tuple[float, str]] = {}
    for rate in published.rates:
        limit = hardware_limit(rate, module_called(rate.device))
        if limit is None or rate.value <= MOST_OVER * limit:
            continue
        device, over = names[rate.device, rate.table_id], rate.value / limit
        if over > worst.get(device, (0.0, ""))[0]:
            words = f"{rate.mode.name}: {rate.subject} of {above(rate.value, limit, unit_of(rate))}"
            worst[device] = (over, words)
    for device, (_, words) in worst.items():
        yield Finding(
            subject="limits",
            is_serious=True,
            basis="roofs",
            device=device,
            networks={},
            what=words,
            fix="the unit of the table is wrong: import it again",
        )
