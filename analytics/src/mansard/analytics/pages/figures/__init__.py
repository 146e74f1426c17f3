"""Charts, and the frames that they draw."""
