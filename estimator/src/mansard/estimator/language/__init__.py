"""Language models from their configuration: sizes and stored weights become a network."""
