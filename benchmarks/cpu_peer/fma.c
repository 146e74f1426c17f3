/* FMA chains z <- z*z + c in C, from the plain loop to hand-blocked vectors. */
#include "common.h"

/* The plain loop over elements, the chain inside it. */
PEER(fma_plain)
{
    UNUSED();
    REAL *z = (REAL *)a;
    for (int64_t r = 0; r < repetitions; r++) {
        for (int64_t i = 0; i < n; i++) {
            REAL x = z[i];
            for (int64_t s = 0; s < steps; s++)
                x = x * x + CHAOS_C;
            z[i] = x;
        }
        BARRIER();
    }
}

/* The same in the manner of ERT: each chain written out, so that the compiler turns the
 * loop over elements into vectors of one chain each. */
#define R4(x) x x x x
#define R16(x) R4(R4(x))
#define R64(x) R16(R4(x))
#define STEP x = x * x + CHAOS_C;
#define WRITTEN_OUT(length, text) \
    if (steps == length) { \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) \
        { \
            REAL x = z[i]; \
            text z[i] = x; \
        } \
    }
PEER(fma_ert)
{
    UNUSED();
    REAL *z = (REAL *)a;
    for (int64_t r = 0; r < repetitions; r++) {
        WRITTEN_OUT(64, R64(STEP))
        WRITTEN_OUT(128, R64(STEP) R64(STEP))
        WRITTEN_OUT(256, R4(R64(STEP)))
        WRITTEN_OUT(512, R4(R64(STEP)) R4(R64(STEP)))
        WRITTEN_OUT(1024, R16(R64(STEP)))
        BARRIER();
    }
}

/* Blocks of elements in a local array; the compiler's own vectoriser does the rest. */
#define BLOCKED(count) \
    PEER(fma_blocked##count) \
    { \
        UNUSED(); \
        REAL *z = (REAL *)a; \
        enum { block = (count) * 64 / sizeof(REAL) }; \
        for (int64_t r = 0; r < repetitions; r++) { \
            for (int64_t i = 0; i + block <= n; i += block) { \
                REAL x[block]; \
                for (int k = 0; k < block; k++) \
                    x[k] = z[i + k]; \
                for (int64_t s = 0; s < steps; s++) { \
                    _Pragma("omp simd") for (int k = 0; k < block; k++) \
                        x[k] = x[k] * x[k] + CHAOS_C; \
                } \
                for (int k = 0; k < block; k++) \
                    z[i + k] = x[k]; \
            } \
            BARRIER(); \
        } \
    }
BLOCKED(8)
BLOCKED(16)

/* Vectors by name: `count` of them in registers. */
#define VECTORS(width, count) \
    PEER(fma_vectors##width##x##count) \
    { \
        UNUSED(); \
        vector##width *z = (vector##width *)a; \
        const vector##width constant = (vector##width){0} + CHAOS_C; \
        int64_t n_vectors = n * (int64_t)sizeof(REAL) / (width); \
        for (int64_t r = 0; r < repetitions; r++) { \
            for (int64_t i = 0; i + (count) <= n_vectors; i += (count)) { \
                vector##width x[count]; \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) x[k] = z[i + k]; \
                for (int64_t s = 0; s < steps; s++) { \
                    _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) \
                        x[k] = x[k] * x[k] + constant; \
                } \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) z[i + k] = x[k]; \
            } \
            BARRIER(); \
        } \
    }
VECTORS(32, 8)
VECTORS(32, 12)
VECTORS(64, 8)
VECTORS(64, 12)
VECTORS(64, 16)
