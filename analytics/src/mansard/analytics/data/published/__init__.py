"""Tables of others: read, kept apart from what was measured, drawn as published."""
