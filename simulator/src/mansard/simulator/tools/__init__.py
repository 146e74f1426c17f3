"""The stand-ins for the board's tools: copied into a tree, where they run by themselves."""
