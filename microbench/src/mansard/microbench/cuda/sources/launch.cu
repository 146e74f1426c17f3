// Nothing: what a launch of it takes is the launch itself. It has no arguments to copy.

extern "C" __global__ void __launch_bounds__(32) launch() {}
