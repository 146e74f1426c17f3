// Tensor cores by the instructions of a warpgroup (sm_90a): every block multiplies its own A (128 rows
// of 32 bytes) with its own B (256 columns of 32 bytes) into 128 x 256 sums, again and again. Each of
// its two warpgroups has 64 rows of A in registers; both read B in shared memory. While one waits for
// its products, those of the other run. Sums start again from nothing every kRoundsPerSum rounds, so
// that they neither overflow nor grow until the products no longer count.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)

constexpr int kRoundsPerSum = 128;
constexpr int kUnrolled = 16;
constexpr int kBlock = 256;
constexpr int kColumns = 256;
constexpr int kRowBytes = 32;
constexpr int kABytes = 128 * kRowBytes;
constexpr int kBBytes = kColumns * kRowBytes;
constexpr int kSumBytes = 128 * kColumns * 4;

// B in shared memory, without swizzling: matrices of 8 columns by 16 bytes, one after the other; those
// of the second 16 bytes of all columns behind those of the first (PTX ISA, wgmma, "Matrix Descriptor").
constexpr int kCoreBytes = 8 * 16;
constexpr int kHalfBytes = kBBytes / 2;

// By a plain store: the instructions of access.cuh reach global memory alone.
__device__ __forceinline__ void stage(char* b, const char* from) {
#pragma unroll
  for (int vector = threadIdx.x; vector < kBBytes / 16; vector += kBlock) {
    const int column = vector / 2;
    char* place = b + kHalfBytes * (vector % 2) + kCoreBytes * (column / 8) + 16 * (column % 8);
    *reinterpret_cast<uint4*>(place) = load<kPastL1>(from + 16 * vector);
  }
}

// Bits 0 to 13: the address; 16 to 29: from the first 16 bytes of K to the second; 32 to 45: from 8
// columns to the next 8; all in units of 16 bytes.
__device__ __forceinline__ Descriptor describe(const char* b) {
  return static_cast<Descriptor>(shared_address(b) >> 4 & 0x3fff) |
         static_cast<Descriptor>(kHalfBytes >> 4) << 16 | static_cast<Descriptor>(kCoreBytes >> 4) << 32;
}

#define FORMAT(NAME, PRECISION, SUM)                                                               \
  struct NAME {                                                                                    \
    using Sum = SUM;                                                                               \
    using Sum2 = SUM##2;                                                                           \
    static __device__ __forceinline__ void multiply(Sum* d, const unsigned* a, Descriptor b,       \
                                                    int adds) {                                    \
      multiply_##PRECISION(d, a, b, adds);                                                            \
    }                                                                                              \
  }

FORMAT(Fp16, fp16, float);
FORMAT(Bf16, bf16, float);
FORMAT(Tf32, tf32, float);
FORMAT(Fp8, fp8, float);
FORMAT(Int8, int8, int);

// Of 16 rows, lane 4·g + t has in its rows g and g + 8 the words t and t + 4 of A, and of each 8 columns
// of the sums those at 2t and 2t + 1.
template <class P>
__device__ __forceinline__ void run(const void* a, void* b, int rounds, int repetitions,
                                    unsigned long long* clock) {
  __shared__ __align__(128) char staged[kBBytes];
  const int lane = threadIdx.x % 32;
  const int row = 16 * (threadIdx.x / 32) + lane / 4;
  const char* operands = static_cast<const char*>(a) + 1ll * (kABytes + kBBytes) * blockIdx.x;
  char* sums = static_cast<char*>(b) + 1ll * kSumBytes * blockIdx.x + 4 * kColumns * row + 8 * (lane % 4);
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    __syncthreads();  // the other warpgroup may still multiply by what is staged
    stage(staged, operands + kABytes);
    show_to_tensor_cores();
    const Descriptor described = describe(staged);
    unsigned mine[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      mine[k] = load_word<kPastL1>(operands + kRowBytes * (row + 8 * (k % 2)) + 4 * (lane % 4) + 16 * (k / 2));
    }
    typename P::Sum d[128];
#pragma unroll
    for (int k = 0; k < 128; ++k) d[k] = 0;
#pragma unroll 1
    for (int group = 0; group < rounds / kUnrolled; ++group) {
      const int adds = group % (kRoundsPerSum / kUnrolled);
      begin_products();
      P::multiply(d, mine, described, adds);
#pragma unroll
      for (int round = 1; round < kUnrolled; ++round) P::multiply(d, mine, described, 1);
      end_products();
    }
#pragma unroll
    for (int k = 0; k < 128; k += 2) {
      *reinterpret_cast<typename P::Sum2*>(sums + 4 * kColumns * 8 * (k / 2 % 2) + 4 * 8 * (k / 4)) = {
          d[k], d[k + 1]};
    }
  }
  stop_clock(clock);
}

#define KERNEL(NAME, FORMAT)                                                                       \
  extern "C" __global__ void __launch_bounds__(kBlock, 1)                                          \
      wgmma_##NAME(void* a, void* b, void*, long long, int rounds, int repetitions,         \
                          unsigned long long* clock) {                                             \
    run<FORMAT>(a, b, rounds, repetitions, clock);                                                 \
  }

KERNEL(fp16, Fp16)
KERNEL(bf16, Bf16)
KERNEL(tf32, Tf32)
KERNEL(fp8, Fp8)
KERNEL(int8, Int8)

#endif
