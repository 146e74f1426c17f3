// CUDA C++ on a CPU: what the kernels' sources use, and stand-ins for access.cuh and mma.cuh.
// RUN has threads run one after the other; RUN_WARPS gives every lane of a warp a thread of
// the CPU, for kernels whose lanes work together, RUN_BLOCKS every thread of a block.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(N) __attribute__((aligned(N)))

struct Dim {
  unsigned x;
};
static thread_local Dim threadIdx;
static Dim blockIdx, blockDim, gridDim;

struct uint4 {
  unsigned x, y, z, w;
};
static uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

struct float2 {
  float x, y;
};
struct int2 {
  int x, y;
};

template <class To, class From>
static To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
static float __uint_as_float(unsigned v) { return bits_as<float>(v); }
static unsigned __float_as_uint(float v) { return bits_as<unsigned>(v); }
static double __hiloint2double(int high, int low) {
  return bits_as<double>(std::uint64_t(unsigned(high)) << 32 | unsigned(low));
}
static int __double2loint(double v) { return int(bits_as<std::uint64_t>(v)); }
static int __double2hiint(double v) { return int(bits_as<std::uint64_t>(v) >> 32); }
static float __fmaf_rn(float x, float y, float z) { return std::fmaf(x, y, z); }
static double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }

// In the place of access.cuh, whose instructions reach global memory alone.
enum Cache { kPastL1, kThroughL1 };

static struct {
  const char *start, *end;
} arrays[3];
extern "C" void set_array(int number, const char* start, long long n_bytes) {
  arrays[number] = {start, start + n_bytes};
}
static void expect_global(const void* address, int n_bytes) {
  const char* first = static_cast<const char*>(address);
  for (const auto& one : arrays) {
    if (first >= one.start && first + n_bytes <= one.end) return;
  }
  std::fprintf(stderr, "%d bytes at %p lie in no array\n", n_bytes, address);
  std::abort();
}

template <Cache>
static uint4 load(const void* address) {
  uint4 v;
  expect_global(address, sizeof v);
  std::memcpy(&v, address, sizeof v);
  return v;
}
template <Cache>
static unsigned load_word(const void* address) {
  unsigned v;
  expect_global(address, sizeof v);
  std::memcpy(&v, address, sizeof v);
  return v;
}
static void store(void* address, uint4 v) {
  expect_global(address, sizeof v);
  std::memcpy(address, &v, sizeof v);
}

// Time that goes on with every look, 2 cycles for each nanosecond.
static thread_local unsigned long long looks = 0;
static unsigned long long read_cycles() { return 2000 * ++looks; }
static unsigned long long read_nanoseconds() { return 1000 * ++looks; }
static void rest() {}

// Half precision, rounded once: z·z + c is exact in double for fp16 and in 64 bits of
// significand for every bf16 that is not tiny; then the nearest is searched, not computed
// as rounding.py does it.
static unsigned pair(unsigned z, unsigned c, unsigned short (*step)(unsigned short, unsigned short)) {
  return unsigned(step(z >> 16, c >> 16)) << 16 | step(z & 0xffff, c & 0xffff);
}
#ifdef __aarch64__
using Half = __fp16;
#else
using Half = _Float16;
#endif
static unsigned short step_fp16(unsigned short z, unsigned short c) {
  const double x = double(bits_as<Half>(z));
  return bits_as<unsigned short>(Half(x * x + double(bits_as<Half>(c))));
}
static unsigned short step_bf16(unsigned short z, unsigned short c) {
  const long double x = bits_as<float>(unsigned(z) << 16);
  const long double exact = x * x + bits_as<float>(unsigned(c) << 16);
  // The nearest of the neighbours that end in 16 zero bits; between two, the even one.
  const unsigned low = bits_as<unsigned>(float(exact)) & 0xffff0000u;
  unsigned best = low;
  for (const unsigned candidate : {low - 0x10000u, low + 0x10000u}) {
    const long double mine = std::fabs(bits_as<float>(candidate) - exact);
    const long double other = std::fabs(bits_as<float>(best) - exact);
    if (mine < other || (mine == other && !(candidate & 0x10000u))) best = candidate;
  }
  return best >> 16;
}
static unsigned square_add_fp16x2(unsigned z, unsigned c) { return pair(z, c, step_fp16); }
static unsigned square_add_bf16x2(unsigned z, unsigned c) { return pair(z, c, step_bf16); }

// Matrix instructions, by the fragment tables of the PTX ISA (mma.m16n8k16, .m16n8k32 and
// .m16n8k8 with TF32), a formula for each element: lanes show each other their registers.
struct Lane {
  unsigned a[4], b[4];
};
static Lane lanes[32];
static std::barrier warp_barrier(32);

static double fp16_value(unsigned bits) { return bits_as<Half>((unsigned short)bits); }
static double bf16_value(unsigned bits) { return bits_as<float>(bits << 16); }
static double tf32_value(unsigned bits) { return bits_as<float>(bits & 0xffffe000u); }
static double int8_value(unsigned bits) { return (signed char)bits; }
static double e4m3_value(unsigned bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double size = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
  return bits & 128 ? -size : size;
}

// Element ``e`` of the lane's registers, each of them holding 32 / kBits elements.
template <int kBits>
static unsigned element(const unsigned* registers, int e) {
  constexpr int kEach = 32 / kBits;
  return registers[e / kEach] >> (kBits * (e % kEach)) & (0xffffffffu >> (32 - kBits));
}

template <int kBits, class Sum>
static void multiply_on_cpu(Sum* c, const unsigned* a, const unsigned* b, double (*value)(unsigned)) {
  constexpr int kK = 256 / kBits, kEach = 32 / kBits;
  const int lane = threadIdx.x % 32, group = lane >> 2, in_group = lane % 4;
  std::copy(a, a + 4, lanes[lane].a);
  std::copy(b, b + 2, lanes[lane].b);
  warp_barrier.arrive_and_wait();
  for (int i = 0; i < 4; ++i) {
    const int row = i < 2 ? group : group + 8, column = in_group * 2 + (i & 1);
    double sum = c[i];
    for (int k = 0; k < kK; ++k) {
      // A: a lane's elements 0..kEach-1 and 2·kEach..3·kEach-1 are of the row of its group, the
      // others 8 rows below; the first half of its registers has the first half of K.
      const int a_lane = (row % 8) * 4 + k % (4 * kEach) / kEach;
      const int a_element = k % kEach + (row >= 8 ? kEach : 0) + (k >= 4 * kEach ? 2 * kEach : 0);
      const int b_lane = column * 4 + k % (4 * kEach) / kEach;
      const int b_element = k % kEach + (k >= 4 * kEach ? kEach : 0);
      sum += value(element<kBits>(lanes[a_lane].a, a_element)) *
             value(element<kBits>(lanes[b_lane].b, b_element));
    }
    c[i] = Sum(sum);
  }
  warp_barrier.arrive_and_wait();
}

static void mma_fp16(float* c, const unsigned* a, const unsigned* b) {
  multiply_on_cpu<16>(c, a, b, fp16_value);
}
static void mma_bf16(float* c, const unsigned* a, const unsigned* b) {
  multiply_on_cpu<16>(c, a, b, bf16_value);
}
static void mma_tf32(float* c, const unsigned* a, const unsigned* b) {
  multiply_on_cpu<32>(c, a, b, tf32_value);
}
static void mma_fp8(float* c, const unsigned* a, const unsigned* b) {
  multiply_on_cpu<8>(c, a, b, e4m3_value);
}
static void mma_int8(int* c, const unsigned* a, const unsigned* b) {
  multiply_on_cpu<8>(c, a, b, int8_value);
}

// Volta's fragments are no one's business: here a lane has half of a row of A, of a column of
// B, of a row of the sums. Where they lie in memory is what the kernel says.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750

static void load_half_row(bool as_expected, unsigned* x, const char* address, int n_words) {
  if (!as_expected) std::abort();
  const int lane = threadIdx.x % 32;
  std::memcpy(x, address + 32 * (lane / 2) + 4 * n_words * (lane % 2), 4 * n_words);
}

#define AS_EXPECTED(OPERAND)                                                                   \
  (!std::strcmp(OPERAND, "a.sync.aligned.row") || !std::strcmp(OPERAND, "b.sync.aligned.col"))
#define WMMA_LOAD_FP16(OPERAND, X, ADDRESS) load_half_row(AS_EXPECTED(OPERAND), X, ADDRESS, 4)
#define WMMA_LOAD_INT8(OPERAND, X, ADDRESS) load_half_row(AS_EXPECTED(OPERAND), X, ADDRESS, 2)
#define WMMA_STORE(TYPE, KIND, ADDRESS, X)                                                     \
  std::memcpy((ADDRESS) + 128 * (threadIdx.x % 32 / 2) + 32 * (threadIdx.x % 2), X, 32)

template <int kBits, class Sum>
static void multiply_tiles_on_cpu(Sum* c, const unsigned* a, const unsigned* b,
                                  double (*value)(unsigned)) {
  const int lane = threadIdx.x % 32, row = lane / 2, half = lane % 2;
  std::copy(a, a + kBits / 4, lanes[lane].a);
  std::copy(b, b + kBits / 4, lanes[lane].b);
  warp_barrier.arrive_and_wait();
  for (int i = 0; i < 8; ++i) {
    const int column = 8 * half + i;
    double sum = c[i];
    for (int k = 0; k < 16; ++k) {
      sum += value(element<kBits>(lanes[2 * row + k / 8].a, k % 8)) *
             value(element<kBits>(lanes[2 * column + k / 8].b, k % 8));
    }
    c[i] = Sum(sum);
  }
  warp_barrier.arrive_and_wait();
}

static void wmma_fp16(float* c, const unsigned* a, const unsigned* b) {
  multiply_tiles_on_cpu<16>(c, a, b, fp16_value);
}
static void wmma_int8(int* c, const unsigned* a, const unsigned* b) {
  multiply_tiles_on_cpu<8>(c, a, b, int8_value);
}

#endif

// Products of a warpgroup, by the tables of the PTX ISA (wgmma.mma_async.m64nNk16, .m64nNk32 and
// .m64nNk8 with TF32): A and the sums in the fragments of four warps, one below the other, B in
// shared memory by its descriptor (K-major, no swizzling). All threads of a block are there.
using Descriptor = unsigned long long;
static Lane block_lanes[256];
static std::barrier<>* block_barrier;
static const char* shared_base;
constexpr unsigned kSharedStart = 1024;  // where shared memory begins: descriptors hold no nulls

static void __syncthreads() { block_barrier->arrive_and_wait(); }
static void begin_products() {}
static void end_products() {}
static void show_to_tensor_cores() { __syncthreads(); }
static unsigned shared_address(const void* pointer) {
  shared_base = static_cast<const char*>(pointer);
  return kSharedStart;
}

template <int kBits, class Sum>
static void multiply_block_on_cpu(Sum* d, const unsigned* a, Descriptor b, int adds,
                                  double (*value)(unsigned)) {
  constexpr int kK = 256 / kBits, kEach = 32 / kBits;
  const int thread = threadIdx.x, lane = thread % 32, group = lane >> 2, in_group = lane % 4;
  std::copy(a, a + 4, block_lanes[thread].a);
  __syncthreads();
  if (b >> 62) std::abort();  // bits 62 and 63: swizzled
  const unsigned start = unsigned(b & 0x3fff) << 4;
  const unsigned k_step = unsigned(b >> 16 & 0x3fff) << 4, n_step = unsigned(b >> 32 & 0x3fff) << 4;
  for (int i = 0; i < 128; ++i) {
    const int row = (i % 4 < 2 ? group : group + 8), column = 8 * (i / 4) + in_group * 2 + (i & 1);
    double sum = adds ? d[i] : 0;
    for (int k = 0; k < kK; ++k) {
      const int a_thread = thread - lane + (row % 8) * 4 + k % (4 * kEach) / kEach;
      const int a_element = k % kEach + (row >= 8 ? kEach : 0) + (k >= 4 * kEach ? 2 * kEach : 0);
      const int byte = k * kBits / 8;
      const unsigned place = start + k_step * (byte / 16) + n_step * (column / 8) +
                             16 * (column % 8) + byte % 16;
      unsigned bits = 0;
      std::memcpy(&bits, shared_base + place - kSharedStart, kBits / 8);
      sum += value(element<kBits>(block_lanes[a_thread].a, a_element)) * value(bits);
    }
    d[i] = Sum(sum);
  }
  __syncthreads();
}

static void multiply_fp16(float* d, const unsigned* a, Descriptor b, int adds) {
  multiply_block_on_cpu<16>(d, a, b, adds, fp16_value);
}
static void multiply_bf16(float* d, const unsigned* a, Descriptor b, int adds) {
  multiply_block_on_cpu<16>(d, a, b, adds, bf16_value);
}
static void multiply_tf32(float* d, const unsigned* a, Descriptor b, int adds) {
  multiply_block_on_cpu<32>(d, a, b, adds, tf32_value);
}
static void multiply_fp8(float* d, const unsigned* a, Descriptor b, int adds) {
  multiply_block_on_cpu<8>(d, a, b, adds, e4m3_value);
}
static void multiply_int8(int* d, const unsigned* a, Descriptor b, int adds) {
  multiply_block_on_cpu<8>(d, a, b, adds, int8_value);
}

// Calls kernel() in n threads at once: CUDA's threads first to first + n - 1 of the block.
template <typename Kernel>
static void run_together(unsigned first, unsigned n, Kernel kernel) {
  std::vector<std::thread> threads;
  for (unsigned thread = first; thread < first + n; ++thread) {
    threads.emplace_back([=] {
      threadIdx.x = thread;
      kernel();
    });
  }
  for (std::thread& one : threads) one.join();
}

#define RUN(NAME)                                                                              \
  extern "C" void run_##NAME(unsigned grid, unsigned block, void* a, void* b, void* c,         \
                             long long n_elements, int n_steps, int repetitions,               \
                             unsigned long long* clock) {                                      \
    gridDim.x = grid;                                                                          \
    blockDim.x = block;                                                                        \
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {                                    \
      for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) {                              \
        NAME(a, b, c, n_elements, n_steps, repetitions, clock);                                \
      }                                                                                        \
    }                                                                                          \
  }

#define RUN_WARPS(NAME)                                                                        \
  extern "C" void run_##NAME(unsigned grid, unsigned block, void* a, void* b, void* c,         \
                             long long n_elements, int n_steps, int repetitions,               \
                             unsigned long long* clock) {                                      \
    gridDim.x = grid;                                                                          \
    blockDim.x = block;                                                                        \
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {                                    \
      for (unsigned first = 0; first < block; first += 32) {                                   \
        run_together(first, 32, [=] {                                                          \
          NAME(a, b, c, n_elements, n_steps, repetitions, clock);                              \
        });                                                                                    \
      }                                                                                        \
    }                                                                                          \
  }

#define RUN_BLOCKS(NAME)                                                                       \
  extern "C" void run_##NAME(unsigned grid, unsigned block, void* a, void* b, void* c,         \
                             long long n_elements, int n_steps, int repetitions,               \
                             unsigned long long* clock) {                                      \
    gridDim.x = grid;                                                                          \
    blockDim.x = block;                                                                        \
    std::barrier<> barrier(block);                                                             \
    block_barrier = &barrier;                                                                  \
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {                                    \
      run_together(0, block, [=] {                                                             \
        NAME(a, b, c, n_elements, n_steps, repetitions, clock);                                \
      });                                                                                      \
    }                                                                                          \
  }
