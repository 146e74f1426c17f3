// A chase through a random cycle: one thread, every load waits for the one before it. a[i]
// holds where to go next, as an offset in bytes; b[0] holds where the last launch stopped,
// so that one launch after the other goes on round the whole cycle.

constexpr int kHopsPerRound = 32;

template <Cache kCache>
__device__ __forceinline__ void chase(const void* a, void* b, int n_hops, int repetitions,
                                      unsigned long long* clock) {
  unsigned* position = static_cast<unsigned*>(b);
  unsigned offset = position[0];
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
#pragma unroll 1
    for (int round = n_hops / kHopsPerRound; round > 0; --round) {
#pragma unroll
      for (int hop = 0; hop < kHopsPerRound; ++hop) {
        offset = load_word<kCache>(static_cast<const char*>(a) + offset);
      }
    }
  }
  stop_clock(clock);
  position[0] = offset;
}

#define KERNEL(SCOPE, CACHE)                                                                     \
  extern "C" __global__ void __launch_bounds__(1)                                                \
      latency_##SCOPE(void* a, void* b, void*, long long, int, int repetitions,                  \
                      unsigned long long* clock) {                                               \
    chase<CACHE>(a, b, 1024, repetitions, clock);                                                \
  }

KERNEL(gpu, kPastL1)
KERNEL(sm, kThroughL1)
