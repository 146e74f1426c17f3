/* A stand-in for NVIDIA's management library: one card as it is watched.
 *
 * CARD: 1 a card that is hot and at its power limit, 2 one that tells its name alone (as Orin does),
 * 3 one whose driver slows it down though its GPU is cool (as an H100 did).
 * Signatures, units and codes as NVIDIA's NVML API Reference has them.
 */
#include <string.h>

enum { OK = 0, UNSUPPORTED = 3 };
static int card;

typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned gpu, memory; } utilisation;

#define TOLD(value) do { if (CARD == 2) return UNSUPPORTED; *found = (value); return OK; } while (0)

int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
const char *nvmlErrorString(int code) { return code == UNSUPPORTED ? "Not Supported" : "Other"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    (void)index;
    *handle = &card;
    return OK;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    (void)handle;
    strncpy(name, "Made-up card", length);
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *handle, utilisation *found) {
    (void)handle;
    if (CARD == 2) return UNSUPPORTED;
    found->gpu = 97;
    found->memory = 40;
    return OK;
}
int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *found) {
    (void)handle;
    TOLD(kind == 1 ? 1200 : 5000); /* MHz of the SMs, of the memory */
}
int nvmlDeviceGetMaxClockInfo(void *handle, int kind, unsigned *found) {
    (void)handle; (void)kind;
    TOLD(1800);
}
int nvmlDeviceGetMemoryInfo(void *handle, memory *found) {
    (void)handle;
    if (CARD == 2) return UNSUPPORTED;
    found->total = 8ull << 30;
    found->used = 3ull << 30;
    found->free = 5ull << 30;
    return OK;
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *found) {
    (void)handle; (void)sensor;
    TOLD(CARD == 3 ? 66 : 91);
}
int nvmlDeviceGetTemperatureThreshold(void *handle, int kind, unsigned *found) {
    (void)handle; (void)kind;
    TOLD(CARD == 3 ? 89 : 90);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *found) {
    (void)handle;
    TOLD(CARD == 3 ? 0x20 : 0x20 | 0x08 | 0x04 | 0x01);
}
int nvmlDeviceGetFanSpeed(void *handle, unsigned *found) { (void)handle; TOLD(60); }
int nvmlDeviceGetPowerUsage(void *handle, unsigned *found) { (void)handle; TOLD(250000); }
#if CARD == 1 /* the other's library is older than this function */
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, void *found) {
    (void)handle; (void)found;
    *count = 0;
    return OK;
}
#endif
