"""Which modes a sweep visits: names, settings, grids, and a choice spread over them."""
