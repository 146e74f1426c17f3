// Thread 0 of block 0 leaves minus the start, and adds the end: no register is held between.
__device__ __forceinline__ void start_clock(unsigned long long* clock) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    clock[1] = 0ull - read_nanoseconds();
    clock[0] = 0ull - read_cycles();
  }
}

__device__ __forceinline__ void stop_clock(unsigned long long* clock) {
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    clock[0] += read_cycles();
    clock[1] += read_nanoseconds();
  }
}

// The vectors of 16 bytes that one thread works on: it takes kTile of them at a time, a
// block's width apart, and every thread takes as many. Scope gpu: blocks take turns over
// the whole array. Scope sm: the block sweeps one piece of it again and again.
struct Sweep {
  long long start;   // bytes
  long long stride;  // bytes from one tile to the next
  int n_tiles;
};

template <int kBlock, int kTile, Cache kCache>
__device__ __forceinline__ Sweep plan_sweep(long long n_bytes) {
  constexpr long long tile_bytes = 16ll * kBlock * kTile;
  const int n_tiles = static_cast<unsigned>(n_bytes / tile_bytes) / gridDim.x;
  const bool own_slice = kCache == kThroughL1;
  const long long first = own_slice ? 1ll * blockIdx.x * n_tiles : 1ll * blockIdx.x;
  return {first * tile_bytes + 16ll * threadIdx.x,
          own_slice ? tile_bytes : tile_bytes * gridDim.x, n_tiles};
}
