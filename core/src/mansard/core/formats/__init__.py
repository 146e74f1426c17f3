"""Names and files of others: TensorRT, Nsight Compute, ONNX, ONNX Runtime, protobuf."""
