"""Programs of the user, measured as a whole: time, memory, energy, and windows that they name."""
