// One warp that waits: the GPU holds its clocks and does nothing, which is its constant
// power. A repetition lasts kWaitNs; between two looks at the clock the warp sleeps.

constexpr unsigned kWaitNs = 100000;

extern "C" __global__ void __launch_bounds__(32)
    stalled(void*, void*, void*, long long, int, int repetitions, unsigned long long* clock) {
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const unsigned long long start = read_nanoseconds();
    while (read_nanoseconds() - start < kWaitNs) rest();
  }
  stop_clock(clock);
}
