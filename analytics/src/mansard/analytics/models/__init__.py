"""From frames to models: roofs, energy, scaling, predictions, counters, sanity."""
