"""Files of ours: written whole, one record a line or one a document."""
