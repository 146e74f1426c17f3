"""Programs of the user's, measured as they are: time, memory, energy, and windows they name."""
