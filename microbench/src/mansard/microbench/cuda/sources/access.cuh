// Every instruction that CUDA C++ has no word for: loads and stores of 128 bits past or
// through L1, the clocks, packed half-precision FMA. A compiler may neither drop nor
// repeat them: they are volatile. Tests on the CPU put functions of their own in its place.

enum Cache { kPastL1, kThroughL1 };  // .cg: cached in L2 alone; .ca: in L1 too

template <Cache kCache>
__device__ __forceinline__ uint4 load(const void* address) {
  uint4 v;
  if constexpr (kCache == kThroughL1) {
    asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address) : "memory");
  } else {
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address) : "memory");
  }
  return v;
}

template <Cache kCache>
__device__ __forceinline__ unsigned load_word(const void* address) {
  unsigned v;
  if constexpr (kCache == kThroughL1) {
    asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  } else {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(address) : "memory");
  }
  return v;
}

__device__ __forceinline__ void store(void* address, uint4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ __forceinline__ unsigned long long read_cycles() {
  unsigned long long cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles) :: "memory");
  return cycles;
}

__device__ __forceinline__ unsigned long long read_nanoseconds() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds) :: "memory");
  return nanoseconds;
}

// z·z + c on two packed halves, one rounding each (PTX ISA: fma, half precision).
__device__ __forceinline__ unsigned square_add_fp16x2(unsigned z, unsigned c) {
  unsigned d;
  asm("fma.rn.f16x2 %0, %1, %1, %2;" : "=r"(d) : "r"(z), "r"(c));
  return d;
}

__device__ __forceinline__ unsigned square_add_bf16x2(unsigned z, unsigned c) {
#if __CUDA_ARCH__ >= 800
  unsigned d;
  asm("fma.rn.bf16x2 %0, %1, %1, %2;" : "=r"(d) : "r"(z), "r"(c));
  return d;
#else
  return z + c;  // never started: the catalog asks for compute capability 8.0
#endif
}

// Sleep for up to 40 us (twice what is asked for). GPUs before Volta cannot: their one warp
// looks at its cycle counter until as long is over.
__device__ __forceinline__ void rest() {
#if __CUDA_ARCH__ >= 700
  asm volatile("nanosleep.u32 20000;" ::: "memory");
#else
  const unsigned long long start = read_cycles();
  while (read_cycles() - start < 20000) {
  }
#endif
}
