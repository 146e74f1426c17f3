"""How anything is measured: protocol, sampling, energy windows, conditions, events, runs."""
