"""The origin of published figures: their device and their citation."""

from __future__ import annotations

from dataclasses import dataclass

from mansard.core.records import Processor


@dataclass(frozen=True, kw_only=True)
class PublishedOrigin:
    """The device that figures are of, and where they were published."""

    device: str
    processor: Processor
    citation: str
