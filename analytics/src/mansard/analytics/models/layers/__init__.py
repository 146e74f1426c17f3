"""Layers of any engine: joined to the nodes of their network, under the roofs of a machine."""
