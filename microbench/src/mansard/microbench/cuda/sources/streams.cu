// Read, copy and triad over 16-byte vectors. Read sums all words, wrapping, so that a load
// left out or done twice shows; each thread leaves its sum in b.

template <Cache kCache, int kBlock>
__device__ __forceinline__ void read(const void* a, void* b, long long n_bytes, int repetitions,
                                     unsigned long long* clock) {
  constexpr int kTile = 4;
  const Sweep sweep = plan_sweep<kBlock, kTile, kCache>(n_bytes);
  unsigned sums[kTile] = {0, 0, 0, 0};
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const char* place = static_cast<const char*>(a) + sweep.start;
#pragma unroll 1
    for (int tile = 0; tile < sweep.n_tiles; ++tile, place += sweep.stride) {
      uint4 v[kTile];
#pragma unroll
      for (int k = 0; k < kTile; ++k) v[k] = load<kCache>(place + 16 * kBlock * k);
#pragma unroll
      for (int k = 0; k < kTile; ++k) sums[k] += v[k].x + v[k].y + v[k].z + v[k].w;
    }
  }
  stop_clock(clock);
  static_cast<unsigned*>(b)[blockIdx.x * kBlock + threadIdx.x] =
      sums[0] + sums[1] + sums[2] + sums[3];
}

template <Cache kCache, int kBlock>
__device__ __forceinline__ void copy(const void* a, void* b, long long n_bytes, int repetitions,
                                     unsigned long long* clock) {
  constexpr int kTile = 2;
  const Sweep sweep = plan_sweep<kBlock, kTile, kCache>(n_bytes);
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    long long place = sweep.start;
#pragma unroll 1
    for (int tile = 0; tile < sweep.n_tiles; ++tile, place += sweep.stride) {
      const char* from = static_cast<const char*>(a) + place;
      char* to = static_cast<char*>(b) + place;
      uint4 v[kTile];
#pragma unroll
      for (int k = 0; k < kTile; ++k) v[k] = load<kCache>(from + 16 * kBlock * k);
#pragma unroll
      for (int k = 0; k < kTile; ++k) store(to + 16 * kBlock * k, v[k]);
    }
  }
  stop_clock(clock);
}

__device__ __forceinline__ unsigned add_half(unsigned x, unsigned y) {
  return __float_as_uint(__fmaf_rn(0.5f, __uint_as_float(y), __uint_as_float(x)));
}

template <Cache kCache, int kBlock>
__device__ __forceinline__ void triad(const void* a, const void* b, void* c, long long n_bytes,
                                      int repetitions, unsigned long long* clock) {
  constexpr int kTile = 2;
  const Sweep sweep = plan_sweep<kBlock, kTile, kCache>(n_bytes);
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    long long place = sweep.start;
#pragma unroll 1
    for (int tile = 0; tile < sweep.n_tiles; ++tile, place += sweep.stride) {
      uint4 x[kTile];
      uint4 y[kTile];
#pragma unroll
      for (int k = 0; k < kTile; ++k) {
        x[k] = load<kCache>(static_cast<const char*>(a) + place + 16 * kBlock * k);
        y[k] = load<kCache>(static_cast<const char*>(b) + place + 16 * kBlock * k);
      }
#pragma unroll
      for (int k = 0; k < kTile; ++k) {
        store(static_cast<char*>(c) + place + 16 * kBlock * k,
              make_uint4(add_half(x[k].x, y[k].x), add_half(x[k].y, y[k].y),
                         add_half(x[k].z, y[k].z), add_half(x[k].w, y[k].w)));
      }
    }
  }
  stop_clock(clock);
}

#define KERNELS(SCOPE, BLOCK, BLOCKS, CACHE)                                                     \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)                                    \
      read_fp32_##SCOPE(void* a, void* b, void*, long long n_elements, int, int repetitions,     \
                        unsigned long long* clock) {                                             \
    read<CACHE, BLOCK>(a, b, 4 * n_elements, repetitions, clock);                                \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)                                    \
      copy_fp32_##SCOPE(void* a, void* b, void*, long long n_elements, int, int repetitions,     \
                        unsigned long long* clock) {                                             \
    copy<CACHE, BLOCK>(a, b, 4 * n_elements, repetitions, clock);                                \
  }                                                                                              \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)                                    \
      triad_fp32_##SCOPE(void* a, void* b, void* c, long long n_elements, int, int repetitions,  \
                         unsigned long long* clock) {                                            \
    triad<CACHE, BLOCK>(a, b, c, 4 * n_elements, repetitions, clock);                            \
  }

KERNELS(gpu, 256, 4, kPastL1)
KERNELS(sm, 512, 1, kThroughL1)
