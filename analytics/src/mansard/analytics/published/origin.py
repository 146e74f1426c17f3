"""Whose figures published ones are."""

from __future__ import annotations

from dataclasses import dataclass

from mansard.core.records import Processor


@dataclass(frozen=True, kw_only=True)
class PublishedOrigin:
    """The device that figures are of, and where they were published."""

    device: str
    processor: Processor
    citation: str
