"""Several networks at once, each in stages on the devices of a mapping."""
