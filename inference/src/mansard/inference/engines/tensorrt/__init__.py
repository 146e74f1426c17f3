"""TensorRT through its Python bindings: engine files are built once and loaded to be run."""
