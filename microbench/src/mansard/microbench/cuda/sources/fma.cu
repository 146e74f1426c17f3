// Chains of fused multiply-adds: every element is loaded, goes through n_steps of
// z <- z·z + c, and is stored. Four vectors of 16 bytes are in flight in each thread: 16
// independent chains in fp32 (8 in fp64, 16 pairs in half precision).

constexpr int kVectors = 4;

struct Fp64 {
  using Value = double;
  static constexpr int kPerVector = 2;
  static constexpr double kChaos = -1.99;
  static constexpr double kConstant = 0.25;
  static __device__ __forceinline__ void unpack(uint4 v, Value* z) {
    z[0] = __hiloint2double(static_cast<int>(v.y), static_cast<int>(v.x));
    z[1] = __hiloint2double(static_cast<int>(v.w), static_cast<int>(v.z));
  }
  static __device__ __forceinline__ uint4 pack(const Value* z) {
    return make_uint4(__double2loint(z[0]), __double2hiint(z[0]),
                      __double2loint(z[1]), __double2hiint(z[1]));
  }
  static __device__ __forceinline__ Value step(Value z, Value c) { return __fma_rn(z, z, c); }
};

struct Fp32 {
  using Value = float;
  static constexpr int kPerVector = 4;
  static constexpr float kChaos = -1.99f;
  static constexpr float kConstant = 0.25f;
  static __device__ __forceinline__ void unpack(uint4 v, Value* z) {
    z[0] = __uint_as_float(v.x);
    z[1] = __uint_as_float(v.y);
    z[2] = __uint_as_float(v.z);
    z[3] = __uint_as_float(v.w);
  }
  static __device__ __forceinline__ uint4 pack(const Value* z) {
    return make_uint4(__float_as_uint(z[0]), __float_as_uint(z[1]),
                      __float_as_uint(z[2]), __float_as_uint(z[3]));
  }
  static __device__ __forceinline__ Value step(Value z, Value c) { return __fmaf_rn(z, z, c); }
};

struct Pairs {  // two elements in a register
  using Value = unsigned;
  static constexpr int kPerVector = 4;
  static __device__ __forceinline__ void unpack(uint4 v, Value* z) {
    z[0] = v.x;
    z[1] = v.y;
    z[2] = v.z;
    z[3] = v.w;
  }
  static __device__ __forceinline__ uint4 pack(const Value* z) {
    return make_uint4(z[0], z[1], z[2], z[3]);
  }
};

struct Fp16 : Pairs {
  static constexpr unsigned kChaos = 0xbfd8bfd8u;  // -1.9609375 twice
  static constexpr unsigned kConstant = 0x34003400u;  // 0.25 twice
  static __device__ __forceinline__ Value step(Value z, Value c) {
    return square_add_fp16x2(z, c);
  }
};

struct Bf16 : Pairs {
  static constexpr unsigned kChaos = 0xbff6bff6u;  // -1.921875 twice
  static constexpr unsigned kConstant = 0x3e803e80u;  // 0.25 twice
  static __device__ __forceinline__ Value step(Value z, Value c) {
    return square_add_bf16x2(z, c);
  }
};

template <class P, int kSteps>
__device__ __forceinline__ void steps(typename P::Value* z, typename P::Value c) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int k = 0; k < kVectors * P::kPerVector; ++k) z[k] = P::step(z[k], c);
  }
}

// Whole rounds of 512 instructions (8 KiB of code: the first instruction cache of Volta has
// 12), then the binary digits of what is left: chains of any length, no loop of single steps.
template <class P>
__device__ __forceinline__ void chain(typename P::Value* z, typename P::Value c, int n_steps) {
  constexpr int kRound = 512 / (kVectors * P::kPerVector);
#pragma unroll 1
  for (int round = n_steps / kRound; round > 0; --round) steps<P, kRound>(z, c);
  if (kRound > 32 && (n_steps & 32)) steps<P, 32>(z, c);
  if (n_steps & 16) steps<P, 16>(z, c);
  if (n_steps & 8) steps<P, 8>(z, c);
  if (n_steps & 4) steps<P, 4>(z, c);
  if (n_steps & 2) steps<P, 2>(z, c);
  if (n_steps & 1) steps<P, 1>(z, c);
}

template <class P, int kBlock, Cache kCache>
__device__ __forceinline__ void run(void* a, typename P::Value c, long long n_bytes, int n_steps,
                                    int repetitions, unsigned long long* clock) {
  const Sweep sweep = plan_sweep<kBlock, kVectors, kCache>(n_bytes);
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    char* place = static_cast<char*>(a) + sweep.start;
#pragma unroll 1
    for (int tile = 0; tile < sweep.n_tiles; ++tile, place += sweep.stride) {
      uint4 vectors[kVectors];
      typename P::Value z[kVectors * P::kPerVector];
#pragma unroll
      for (int k = 0; k < kVectors; ++k) vectors[k] = load<kCache>(place + 16 * kBlock * k);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) P::unpack(vectors[k], z + k * P::kPerVector);
      chain<P>(z, c, n_steps);
#pragma unroll
      for (int k = 0; k < kVectors; ++k) {
        store(place + 16 * kBlock * k, P::pack(z + k * P::kPerVector));
      }
    }
  }
  stop_clock(clock);
}

#define KERNEL(NAME, PRECISION, BYTES, BLOCK, BLOCKS, CACHE, C)                                  \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)                                    \
      NAME(void* a, void*, void*, long long n_elements, int n_steps, int repetitions,            \
           unsigned long long* clock) {                                                          \
    run<PRECISION, BLOCK, CACHE>(a, PRECISION::C, BYTES * n_elements, n_steps, repetitions,      \
                                 clock);                                                         \
  }
#define KERNELS(PRECISION, TYPE, BYTES)                                                          \
  KERNEL(fma_##PRECISION##_gpu_chaotic, TYPE, BYTES, 256, 4, kPastL1, kChaos)                    \
  KERNEL(fma_##PRECISION##_gpu_constant, TYPE, BYTES, 256, 4, kPastL1, kConstant)                \
  KERNEL(fma_##PRECISION##_sm_chaotic, TYPE, BYTES, 512, 1, kThroughL1, kChaos)                  \
  KERNEL(fma_##PRECISION##_sm_constant, TYPE, BYTES, 512, 1, kThroughL1, kConstant)

KERNELS(fp64, Fp64, 8)
KERNELS(fp32, Fp32, 4)
KERNELS(fp16, Fp16, 2)
KERNELS(bf16, Bf16, 2)
