// Matrix instructions of one warp: C += A·B on 16 x 8 results (PTX ISA, mma). Registers hold
// what the fragment layouts of that chapter say; Turing's smaller shapes are put together
// to the same one, for its registers are the same, in the same order.

#if __CUDA_ARCH__ >= 750

#define MMA(SHAPE_AND_TYPES, KIND)                                                               \
  asm volatile("mma.sync.aligned." SHAPE_AND_TYPES                                               \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
               : "+" KIND(c[0]), "+" KIND(c[1]), "+" KIND(c[2]), "+" KIND(c[3])                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

__device__ __forceinline__ void mma_fp16(float* c, const unsigned* a, const unsigned* b) {
#if __CUDA_ARCH__ >= 800
  MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
#else
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"
                 " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2 * k]), "r"(a[2 * k + 1]), "r"(b[k]));
  }
#endif
}

__device__ __forceinline__ void mma_int8(int* c, const unsigned* a, const unsigned* b) {
#if __CUDA_ARCH__ >= 800
  MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
#else
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
                   : "+r"(c[2 * half]), "+r"(c[2 * half + 1])
                   : "r"(a[2 * k + half]), "r"(b[k]));
    }
  }
#endif
}

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void mma_bf16(float* c, const unsigned* a, const unsigned* b) {
  MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
}

__device__ __forceinline__ void mma_tf32(float* c, const unsigned* a, const unsigned* b) {
  MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
}
#endif

#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ void mma_fp8(float* c, const unsigned* a, const unsigned* b) {
  MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f");
}
#endif

#elif __CUDA_ARCH__ >= 700

// Volta: 16 x 16 results at a time, in fragments that only the instructions themselves know
// (PTX ISA, wmma). A has rows of 32 bytes, so has B transposed, C rows of 128 bytes.

#define EIGHT(KIND, X)                                                                           \
  KIND(X[0]), KIND(X[1]), KIND(X[2]), KIND(X[3]), KIND(X[4]), KIND(X[5]), KIND(X[6]), KIND(X[7])

#define WMMA_LOAD_FP16(OPERAND, X, ADDRESS)                                                      \
  asm volatile("wmma.load." OPERAND ".m16n16k16.global.f16"                                      \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8], 16;"                                    \
               : EIGHT("=r", X) : "l"(ADDRESS) : "memory")

#define WMMA_LOAD_INT8(OPERAND, X, ADDRESS)                                                      \
  asm volatile("wmma.load." OPERAND ".m16n16k16.global.s8 {%0, %1}, [%2], 32;"                   \
               : "=r"(X[0]), "=r"(X[1]) : "l"(ADDRESS) : "memory")

#define WMMA_STORE(TYPE, KIND, ADDRESS, X)                                                       \
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global." TYPE                            \
               " [%8], {%0, %1, %2, %3, %4, %5, %6, %7}, 32;"                                    \
               :: EIGHT(KIND, X), "l"(ADDRESS) : "memory")

__device__ __forceinline__ void wmma_fp16(float* c, const unsigned* a, const unsigned* b) {
  asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11, %12, %13, %14, %15},"
               " {%16, %17, %18, %19, %20, %21, %22, %23}, {%0, %1, %2, %3, %4, %5, %6, %7};"
               : EIGHT("+f", c) : EIGHT("r", a), EIGHT("r", b));
}

#if __CUDA_ARCH__ >= 720
__device__ __forceinline__ void wmma_int8(int* c, const unsigned* a, const unsigned* b) {
  asm volatile("wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32"
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, {%10, %11},"
               " {%0, %1, %2, %3, %4, %5, %6, %7};"
               : EIGHT("+r", c) : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(b[1]));
}
#endif

#endif
