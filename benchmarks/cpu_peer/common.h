/* What all C peers share. REAL is float or double; every function has the arguments of
 * Mansard's own kernels: three addresses, elements, FMA an element, repetitions. */
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CHAOS_C ((REAL)-1.99)
#define SCALAR ((REAL)0.5)
#define BARRIER() __asm__ volatile("" ::: "memory")
#define PEER(name) \
    void name(int64_t a, int64_t b, int64_t c, int64_t n, int64_t steps, int64_t repetitions)
#define UNUSED() (void)a, (void)b, (void)c, (void)n, (void)steps

typedef REAL vector32 __attribute__((vector_size(32)));
typedef REAL vector64 __attribute__((vector_size(64)));
typedef uint64_t bits32 __attribute__((vector_size(32)));
typedef uint64_t bits64 __attribute__((vector_size(64)));
