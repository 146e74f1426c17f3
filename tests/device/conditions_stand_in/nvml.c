/* A stand-in for NVIDIA's management library: two cards and the processes on them.
 *
 * BOARD: 1 processes 4194305 on both cards and the caller itself on the first, 2 a board that does
 * not tell (Orin), 3 nobody on the cards. Signatures and codes as NVIDIA's NVML API Reference
 * has them. The first card's memory is busy for 35 % of the time. Why its clocks are low is what
 * the variable REASONS says, in hexadecimal digits.
 */
#include <stdlib.h>
#include <unistd.h>

enum { OK = 0, UNSUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
static int cards[2];

typedef struct {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance;
    unsigned compute_instance;
} process;

int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
const char *nvmlErrorString(int code) { return code == UNSUPPORTED ? "Not Supported" : "Other"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = &cards[index];
    return OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process *found) {
    unsigned wanted = BOARD == 3 ? 0 : handle == &cards[0] ? 2 : 1;
    if (BOARD == 2) return UNSUPPORTED;
    if (*count < wanted || (wanted && !found)) {
        *count = wanted;
        return INSUFFICIENT_SIZE;
    }
    *count = wanted;
    if (wanted) found[0].pid = 4194305;
    if (wanted == 2) found[1].pid = (unsigned)getpid();
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *handle, unsigned *percent) {
    if (BOARD == 2) return UNSUPPORTED;
    percent[0] = 90; /* of the GPU */
    percent[1] = handle == &cards[0] ? 35 : 0; /* of the memory */
    return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    const char *told = getenv("REASONS");
    (void)handle;
    if (BOARD == 2) return UNSUPPORTED;
    *reasons = told ? strtoull(told, 0, 16) : 0;
    return OK;
}
