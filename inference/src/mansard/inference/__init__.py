"""Real networks, and programs of the user's: latency, layers and energy."""
