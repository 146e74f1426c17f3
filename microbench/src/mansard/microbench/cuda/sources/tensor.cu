// Tensor cores: every warp multiplies its own A (32 rows of 32 bytes) with its own B (32
// columns of 32 bytes) into 32 x 32 sums, again and again: 8 independent accumulators of
// 16 x 8. Operands stay in registers for a repetition, which loads them and stores the sums.
// Sums start again from nothing every kRoundsPerSum rounds, so that they neither overflow
// nor grow until the products no longer count.

constexpr int kRoundsPerSum = 128;
constexpr int kBlock = 256;

#if __CUDA_ARCH__ >= 750 || !defined(__CUDA_ARCH__)

constexpr int kUnrolled = 16;

template <class P>
struct Warp {
  unsigned a[2][4];
  unsigned b[4][2];
  typename P::Sum c[2][4][4];

  // Lane 4·g + t has, of a row (of A, or of B transposed) of 32 bytes, words t and t + 4.
  __device__ __forceinline__ void load_operands(const char* from_a, const char* from_b, int lane) {
    const int place = 32 * (lane / 4) + 4 * (lane % 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        a[i][r] = load_word<kPastL1>(from_a + place + 32 * (16 * i + 8 * (r % 2)) + 16 * (r / 2));
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        b[j][r] = load_word<kPastL1>(from_b + place + 32 * 8 * j + 16 * r);
      }
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < 32; ++k) c[k / 16][k / 4 % 4][k % 4] = 0;
  }

  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) P::mma(c[i][j], a[i], b[j]);
    }
  }

  // Of each 16 x 8 results, lane 4·g + t has columns 2t and 2t + 1 in rows g and g + 8.
  __device__ __forceinline__ void store_sums(char* to, int lane) const {
    char* place = to + 128 * (lane / 4) + 8 * (lane % 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          *reinterpret_cast<typename P::Sum2*>(place + 128 * (16 * i + 8 * half) + 32 * j) = {
              c[i][j][2 * half], c[i][j][2 * half + 1]};
        }
      }
    }
  }
};

struct Fp16 {
  using Sum = float;
  using Sum2 = float2;
  static __device__ __forceinline__ void mma(Sum* c, const unsigned* a, const unsigned* b) {
    mma_fp16(c, a, b);
  }
};

struct Int8 {
  using Sum = int;
  using Sum2 = int2;
  static __device__ __forceinline__ void mma(Sum* c, const unsigned* a, const unsigned* b) {
    mma_int8(c, a, b);
  }
};

using WarpFp16 = Warp<Fp16>;
using WarpInt8 = Warp<Int8>;
#define HAS_FP16
#define HAS_INT8

#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
struct Bf16 : Fp16 {
  static __device__ __forceinline__ void mma(Sum* c, const unsigned* a, const unsigned* b) {
    mma_bf16(c, a, b);
  }
};

struct Tf32 : Fp16 {
  static __device__ __forceinline__ void mma(Sum* c, const unsigned* a, const unsigned* b) {
    mma_tf32(c, a, b);
  }
};

using WarpBf16 = Warp<Bf16>;
using WarpTf32 = Warp<Tf32>;
#define HAS_BF16_AND_TF32
#endif

// From 9.0 to 11.x, ptxas makes fp8 out of fp16 instructions and additions: not its speed.
#if (__CUDA_ARCH__ >= 890 && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)) || \
    !defined(__CUDA_ARCH__)
struct Fp8 : Fp16 {
  static __device__ __forceinline__ void mma(Sum* c, const unsigned* a, const unsigned* b) {
    mma_fp8(c, a, b);
  }
};

using WarpFp8 = Warp<Fp8>;
#define HAS_FP8
#endif

#elif __CUDA_ARCH__ >= 700

constexpr int kUnrolled = 4;

struct WarpFp16 {
  unsigned a[2][8];
  unsigned b[2][8];
  float c[2][2][8];

  __device__ __forceinline__ void load_operands(const char* from_a, const char* from_b, int) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      WMMA_LOAD_FP16("a.sync.aligned.row", a[i], from_a + 512 * i);
      WMMA_LOAD_FP16("b.sync.aligned.col", b[i], from_b + 512 * i);
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < 32; ++k) c[k / 16][k / 8 % 2][k % 8] = 0;
  }

  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int k = 0; k < 4; ++k) wmma_fp16(c[k / 2][k % 2], a[k / 2], b[k % 2]);
  }

  __device__ __forceinline__ void store_sums(char* to, int) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      WMMA_STORE("f32", "f", to + 128 * 16 * (k / 2) + 64 * (k % 2), c[k / 2][k % 2]);
    }
  }
};
#define HAS_FP16

#if __CUDA_ARCH__ >= 720
struct WarpInt8 {
  unsigned a[2][2][2];
  unsigned b[2][2][2];
  int c[2][2][8];

  __device__ __forceinline__ void load_operands(const char* from_a, const char* from_b, int) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      WMMA_LOAD_INT8("a.sync.aligned.row", a[i / 2][i % 2], from_a + 512 * (i / 2) + 16 * (i % 2));
      WMMA_LOAD_INT8("b.sync.aligned.col", b[i / 2][i % 2], from_b + 512 * (i / 2) + 16 * (i % 2));
    }
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < 32; ++k) c[k / 16][k / 8 % 2][k % 8] = 0;
  }

  __device__ __forceinline__ void multiply() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int k = 0; k < 4; ++k) wmma_int8(c[k / 2][k % 2], a[k / 2][half], b[k % 2][half]);
    }
  }

  __device__ __forceinline__ void store_sums(char* to, int) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      WMMA_STORE("s32", "r", to + 128 * 16 * (k / 2) + 64 * (k % 2), c[k / 2][k % 2]);
    }
  }
};
#define HAS_INT8
#endif

#endif

template <class W>
__device__ __forceinline__ void run(const void* a, void* b, int rounds, int repetitions,
                                    unsigned long long* clock) {
  const int warp = (blockIdx.x * kBlock + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const char* operands = static_cast<const char*>(a) + 2048ll * warp;
  char* sums = static_cast<char*>(b) + 4096ll * warp;
  start_clock(clock);
#pragma unroll 1
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    W mine;
    mine.load_operands(operands, operands + 1024, lane);
#pragma unroll 1
    for (int sum = rounds / kRoundsPerSum; sum > 0; --sum) {
      mine.clear();
#pragma unroll 1
      for (int group = kRoundsPerSum / kUnrolled; group > 0; --group) {
#pragma unroll
        for (int round = 0; round < kUnrolled; ++round) mine.multiply();
      }
    }
    mine.store_sums(sums, lane);
  }
  stop_clock(clock);
}

#define KERNEL(NAME, WARP)                                                                       \
  extern "C" __global__ void __launch_bounds__(kBlock, 2)                                        \
      tensor_##NAME(void* a, void* b, void*, long long, int rounds, int repetitions,             \
                    unsigned long long* clock) {                                                 \
    run<WARP>(a, b, rounds, repetitions, clock);                                                 \
  }

#ifdef HAS_FP16
KERNEL(fp16, WarpFp16)
#endif
#ifdef HAS_INT8
KERNEL(int8, WarpInt8)
#endif
#ifdef HAS_BF16_AND_TF32
KERNEL(bf16, WarpBf16)
KERNEL(tf32, WarpTf32)
#endif
#ifdef HAS_FP8
KERNEL(fp8, WarpFp8)
#endif
