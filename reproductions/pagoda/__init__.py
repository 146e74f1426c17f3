"""Pagoda's analytical table and its 25 measured points, with ours beside them."""
