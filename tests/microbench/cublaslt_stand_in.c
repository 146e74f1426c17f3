// The few functions of cuBLASLt that Mansard calls, over the host's memory: descriptors keep what is
// set, the product is computed as the library defines it. Numbers and layouts are those of cublasLt.h
// (13.0); what is not as that header has it is refused with its status.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_16BF = 14, R_8F_E4M3 = 28, R_4F_E2M1 = 33, COMPUTE_32F = 68 };

typedef struct {
  int32_t transa, transb, a_mode, b_mode;
  int8_t fast;
  const uint8_t *a_scale, *b_scale;
} Operation;
typedef struct {
  int type;
  uint64_t rows, columns;
  int64_t ld;
} Layout;
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Heuristic;

const uint64_t kAlgorithm = 0x5eed;
const size_t kWorkspace = 1 << 20;
uint64_t cublaslt_room = 0;  // looked at by the tests
int64_t cublaslt_stream = -1;
int cublaslt_has_algorithm = 1;

int cublasLtCreate(void **handle) {
  *handle = malloc(1);
  return OK;
}

int cublasLtMatmulDescCreate(void **made, int compute, int scale) {
  if (compute != COMPUTE_32F || scale != R_32F) return INVALID_VALUE;
  *made = calloc(1, sizeof(Operation));
  return OK;
}

int cublasLtMatmulDescSetAttribute(void *target, int attribute, const void *value, size_t size) {
  Operation *operation = target;
  const struct {
    int attribute;
    void *place;
    size_t size;
  } known[] = {{3, &operation->transa, 4},  {4, &operation->transb, 4},  {17, &operation->a_scale, 8},
               {18, &operation->b_scale, 8}, {25, &operation->fast, 1},   {31, &operation->a_mode, 4},
               {32, &operation->b_mode, 4}};
  for (unsigned k = 0; k < sizeof known / sizeof *known; ++k) {
    if (known[k].attribute == attribute && known[k].size == size) {
      memcpy(known[k].place, value, size);
      return OK;
    }
  }
  return INVALID_VALUE;
}

int cublasLtMatrixLayoutCreate(void **made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  Layout *layout = malloc(sizeof *layout);
  *layout = (Layout){type, rows, columns, ld};
  *made = layout;
  return OK;
}

int cublasLtMatmulPreferenceCreate(void **made) {
  *made = malloc(64);
  return OK;
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t size) {
  (void)preference;
  if (attribute != 1 || size != 8) return INVALID_VALUE;
  memcpy(&cublaslt_room, value, 8);
  return OK;
}

static int is_possible(const Operation *operation, const Layout *a, const Layout *b, const Layout *c) {
  const int is_fp4 = a->type == R_4F_E2M1;
  const int is_scaled = operation->a_mode == 1 && operation->b_mode == 1 && operation->a_scale && operation->b_scale;
  return operation->transa == 1 && operation->transb == 0 && a->type == b->type && c->type == R_16BF &&
         (is_fp4 ? is_scaled : a->type == R_8F_E4M3) && operation->fast == !is_fp4;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d,
                                   void *preference, int n_wanted, Heuristic *found, int *n_found) {
  (void)handle, (void)preference;
  *n_found = 0;
  if (!cublaslt_has_algorithm || n_wanted != 1 || c != d || !is_possible(operation, a, b, c)) return NOT_SUPPORTED;
  memset(found, 0, sizeof *found);
  found->algorithm[0] = kAlgorithm;
  found->workspace = kWorkspace;
  *n_found = 1;
  return OK;
}

static double e4m3(unsigned bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double size = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
  return bits & 128 ? -size : size;
}

static double e2m1(unsigned bits) {
  const int exponent = bits >> 1 & 3, mantissa = bits & 1;
  const double size = exponent ? ldexp(2 + mantissa, exponent - 2) : ldexp(mantissa, -1);
  return bits & 8 ? -size : size;
}

static double element(const uint8_t *matrix, int type, uint64_t at) {
  return type == R_8F_E4M3 ? e4m3(matrix[at]) : e2m1(matrix[at / 2] >> 4 * (at % 2) & 15);
}

int cublasLtMatmul(void *handle, void *operation_, const float *alpha, const uint8_t *a, const Layout *a_layout,
                   const uint8_t *b, const Layout *b_layout, const float *beta, const void *c, const Layout *c_layout,
                   uint16_t *d, const Layout *d_layout, const uint64_t *algorithm, void *workspace, size_t n_workspace,
                   void *stream) {
  (void)handle, (void)c;
  const Operation *operation = operation_;
  if (*alpha != 1 || *beta != 0 || algorithm[0] != kAlgorithm || !workspace || n_workspace < kWorkspace ||
      !is_possible(operation, a_layout, b_layout, c_layout) || c_layout != d_layout)
    return INVALID_VALUE;
  const uint64_t n = a_layout->columns, k = a_layout->rows;
  for (uint64_t scale = 0; operation->a_mode && scale < n * k / 16; ++scale)
    if (operation->a_scale[scale] != 0x38 || operation->b_scale[scale] != 0x38) return INVALID_VALUE;
  double *left = malloc(n * k * sizeof *left), *right = malloc(n * k * sizeof *right);
  for (uint64_t at = 0; at < n * k; ++at) {
    left[at] = element(a, a_layout->type, at);
    right[at] = element(b, b_layout->type, at);
  }
  for (uint64_t column = 0; column < b_layout->columns; ++column) {
    for (uint64_t row = 0; row < n; ++row) {  // rows of D are columns of A, which is transposed
      double sum = 0;
      for (uint64_t at = 0; at < k; ++at) sum += left[a_layout->ld * row + at] * right[b_layout->ld * column + at];
      const float rounded = sum;
      uint32_t bits;
      memcpy(&bits, &rounded, 4);
      d[d_layout->ld * column + row] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
  }
  free(left), free(right);
  cublaslt_stream = (int64_t)stream;
  return OK;
}
