"""Programs for developers; a package, so that none of that name elsewhere is taken for it."""
