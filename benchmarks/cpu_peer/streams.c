/* Read, copy and triad in C: plain loops, the library, vectors by name, stores past the
 * caches. Every variant handles whole blocks only; the harness chooses such sizes. */
#include "common.h"

PEER(read_plain)
{
    UNUSED();
    const uint64_t *x = (const uint64_t *)a;
    int64_t words = n * (int64_t)sizeof(REAL) / 8;
    for (int64_t r = 0; r < repetitions; r++) {
        uint64_t sum = 0;
        for (int64_t i = 0; i < words; i++)
            sum ^= x[i];
        *(uint64_t *)b = sum;
        BARRIER();
    }
}

PEER(read_simd_sum)
{
    UNUSED();
    const REAL *x = (const REAL *)a;
    for (int64_t r = 0; r < repetitions; r++) {
        REAL sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; i++)
            sum += x[i];
        *(REAL *)b = sum;
        BARRIER();
    }
}

#define READ(width, count) \
    PEER(read_vectors##width##x##count) \
    { \
        UNUSED(); \
        const bits##width *x = (const bits##width *)a; \
        int64_t n_vectors = n * (int64_t)sizeof(REAL) / (width); \
        for (int64_t r = 0; r < repetitions; r++) { \
            bits##width sum[count] = {0}; \
            for (int64_t i = 0; i + (count) <= n_vectors; i += (count)) { \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) sum[k] ^= x[i + k]; \
            } \
            _Pragma("GCC unroll 16") for (int k = 1; k < (count); k++) sum[0] ^= sum[k]; \
            *(bits##width *)b = sum[0]; \
            BARRIER(); \
        } \
    }
READ(32, 4)
READ(32, 8)
READ(64, 4)
READ(64, 8)
READ(64, 16)

PEER(copy_library)
{
    UNUSED();
    for (int64_t r = 0; r < repetitions; r++) {
        memcpy((void *)b, (const void *)a, (size_t)n * sizeof(REAL));
        BARRIER();
    }
}

/* Compiled without turning loops into calls of the library: this one stays a loop. */
PEER(copy_plain)
{
    UNUSED();
    const REAL *restrict x = (const REAL *)a;
    REAL *restrict y = (REAL *)b;
    for (int64_t r = 0; r < repetitions; r++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i];
        BARRIER();
    }
}

PEER(triad_plain)
{
    UNUSED();
    const REAL *restrict x = (const REAL *)a;
    const REAL *restrict y = (const REAL *)b;
    REAL *restrict z = (REAL *)c;
    for (int64_t r = 0; r < repetitions; r++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            z[i] = x[i] + SCALAR * y[i];
        BARRIER();
    }
}

#define COPY(width, count) \
    PEER(copy_vectors##width##x##count) \
    { \
        UNUSED(); \
        const vector##width *x = (const vector##width *)a; \
        vector##width *y = (vector##width *)b; \
        int64_t n_vectors = n * (int64_t)sizeof(REAL) / (width); \
        for (int64_t r = 0; r < repetitions; r++) { \
            for (int64_t i = 0; i + (count) <= n_vectors; i += (count)) { \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) y[i + k] = x[i + k]; \
            } \
            BARRIER(); \
        } \
    }
COPY(32, 4)
COPY(64, 4)
COPY(64, 8)

#define TRIAD(width, count) \
    PEER(triad_vectors##width##x##count) \
    { \
        UNUSED(); \
        const vector##width *x = (const vector##width *)a; \
        const vector##width *y = (const vector##width *)b; \
        vector##width *z = (vector##width *)c; \
        int64_t n_vectors = n * (int64_t)sizeof(REAL) / (width); \
        for (int64_t r = 0; r < repetitions; r++) { \
            for (int64_t i = 0; i + (count) <= n_vectors; i += (count)) { \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) \
                    z[i + k] = x[i + k] + SCALAR * y[i + k]; \
            } \
            BARRIER(); \
        } \
    }
TRIAD(32, 4)
TRIAD(64, 4)
TRIAD(64, 8)

#if defined(__x86_64__)
/* The processor's own string copy. */
PEER(copy_string)
{
    UNUSED();
    for (int64_t r = 0; r < repetitions; r++) {
        void *from = (void *)a, *to = (void *)b;
        size_t count = (size_t)n * sizeof(REAL);
        __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    }
}
#endif

#if defined(__AVX__)
#define STREAM32(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#endif
#if defined(__AVX512F__)
#define STREAM64(p, v) _mm512_stream_si512((__m512i *)(p), (__m512i)(v))
#endif

#define COPY_PAST(width, count) \
    PEER(copy_past##width##x##count) \
    { \
        UNUSED(); \
        const vector##width *x = (const vector##width *)a; \
        vector##width *y = (vector##width *)b; \
        int64_t n_vectors = n * (int64_t)sizeof(REAL) / (width); \
        for (int64_t r = 0; r < repetitions; r++) { \
            for (int64_t i = 0; i + (count) <= n_vectors; i += (count)) { \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) \
                    STREAM##width(&y[i + k], x[i + k]); \
            } \
            _mm_sfence(); \
            BARRIER(); \
        } \
    }
#define TRIAD_PAST(width, count) \
    PEER(triad_past##width##x##count) \
    { \
        UNUSED(); \
        const vector##width *x = (const vector##width *)a; \
        const vector##width *y = (const vector##width *)b; \
        vector##width *z = (vector##width *)c; \
        int64_t n_vectors = n * (int64_t)sizeof(REAL) / (width); \
        for (int64_t r = 0; r < repetitions; r++) { \
            for (int64_t i = 0; i + (count) <= n_vectors; i += (count)) { \
                _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++) \
                    STREAM##width(&z[i + k], x[i + k] + SCALAR * y[i + k]); \
            } \
            _mm_sfence(); \
            BARRIER(); \
        } \
    }
#if defined(__AVX__)
COPY_PAST(32, 4)
TRIAD_PAST(32, 4)
#endif
#if defined(__AVX512F__)
COPY_PAST(64, 4)
COPY_PAST(64, 8)
TRIAD_PAST(64, 4)
TRIAD_PAST(64, 8)
#endif
