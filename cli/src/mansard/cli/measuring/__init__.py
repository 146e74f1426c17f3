"""Commands that measure."""
