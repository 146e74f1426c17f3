"""What a network really does when ONNX Runtime runs it, to hold the estimator against.

Nothing in here uses the estimator's formulas or shapes: real shapes come from ONNX
Runtime's profiler, and a few lines of arithmetic turn them into work and traffic.
"""
