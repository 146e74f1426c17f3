// Matrix instructions of a warpgroup of Hopper: D (+)= A·B on 64 x 256 results (PTX ISA, wgmma). A
// lies in registers, B in shared memory, where the descriptor says. They run on their own: nothing
// may touch the registers between begin_products and end_products.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

#define SUMS                                                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, "                                                                \
  "%8, %9, %10, %11, %12, %13, %14, %15, "                                                          \
  "%16, %17, %18, %19, %20, %21, %22, %23, "                                                        \
  "%24, %25, %26, %27, %28, %29, %30, %31, "                                                        \
  "%32, %33, %34, %35, %36, %37, %38, %39, "                                                        \
  "%40, %41, %42, %43, %44, %45, %46, %47, "                                                        \
  "%48, %49, %50, %51, %52, %53, %54, %55, "                                                        \
  "%56, %57, %58, %59, %60, %61, %62, %63, "                                                        \
  "%64, %65, %66, %67, %68, %69, %70, %71, "                                                        \
  "%72, %73, %74, %75, %76, %77, %78, %79, "                                                        \
  "%80, %81, %82, %83, %84, %85, %86, %87, "                                                        \
  "%88, %89, %90, %91, %92, %93, %94, %95, "                                                        \
  "%96, %97, %98, %99, %100, %101, %102, %103, "                                                    \
  "%104, %105, %106, %107, %108, %109, %110, %111, "                                                \
  "%112, %113, %114, %115, %116, %117, %118, %119, "                                                \
  "%120, %121, %122, %123, %124, %125, %126, %127"                                                  

#define EIGHT(KIND, D, K)                                                                          \
  KIND(D[K]), KIND(D[K + 1]), KIND(D[K + 2]), KIND(D[K + 3]), KIND(D[K + 4]), KIND(D[K + 5]),      \
      KIND(D[K + 6]), KIND(D[K + 7])

#define ALL(KIND, D)                                                                               \
  EIGHT(KIND, D, 0), EIGHT(KIND, D, 8), EIGHT(KIND, D, 16), EIGHT(KIND, D, 24),                    \
      EIGHT(KIND, D, 32), EIGHT(KIND, D, 40), EIGHT(KIND, D, 48), EIGHT(KIND, D, 56),              \
      EIGHT(KIND, D, 64), EIGHT(KIND, D, 72), EIGHT(KIND, D, 80), EIGHT(KIND, D, 88),              \
      EIGHT(KIND, D, 96), EIGHT(KIND, D, 104), EIGHT(KIND, D, 112), EIGHT(KIND, D, 120)

// ``adds`` 0: D = A·B. SIGNS: neither operand is negated, and B is not transposed where it could be.
#define WGMMA(SHAPE_AND_TYPES, KIND, SIGNS)                                                        \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %133, 0;\n"                                 \
               "wgmma.mma_async.sync.aligned." SHAPE_AND_TYPES " {" SUMS "},"                      \
               " {%128, %129, %130, %131}, %132, adds" SIGNS ";\n}"                                \
               : ALL("+" KIND, d)                                                                  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

using Descriptor = unsigned long long;

__device__ __forceinline__ void multiply_fp16(float* d, const unsigned* a, Descriptor b, int adds) {
  WGMMA("m64n256k16.f32.f16.f16", "f", ", 1, 1, 0");
}

__device__ __forceinline__ void multiply_bf16(float* d, const unsigned* a, Descriptor b, int adds) {
  WGMMA("m64n256k16.f32.bf16.bf16", "f", ", 1, 1, 0");
}

__device__ __forceinline__ void multiply_tf32(float* d, const unsigned* a, Descriptor b, int adds) {
  WGMMA("m64n256k8.f32.tf32.tf32", "f", ", 1, 1");
}

__device__ __forceinline__ void multiply_fp8(float* d, const unsigned* a, Descriptor b, int adds) {
  WGMMA("m64n256k32.f32.e4m3.e4m3", "f", ", 1, 1");
}

__device__ __forceinline__ void multiply_int8(int* d, const unsigned* a, Descriptor b, int adds) {
  WGMMA("m64n256k32.s32.s8.s8", "r", "");
}

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

// Tensor cores read shared memory by a way of their own: what was stored there is made visible to it.
__device__ __forceinline__ void show_to_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

#endif
