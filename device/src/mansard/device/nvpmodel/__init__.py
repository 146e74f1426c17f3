"""nvpmodel, NVIDIA's tool for power modes: its configuration file, its modes, and the tool."""
