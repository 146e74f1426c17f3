"""Shape inference: from a Model and the dimensions that are given to nodes with tensors.

``inference`` holds the pass; the other files are what its steps need.
"""
