"""From the modes that were measured to all modes of a board."""
