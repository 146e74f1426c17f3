"""TensorRT through its program trtexec, which builds, runs and times by itself."""
