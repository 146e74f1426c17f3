/* A stand-in for NVIDIA's management library: one card whose settings are lines of a file.
 *
 * STATE names the file: power limit in mW, locked GPU clock and memory clock in MHz (0: not
 * locked). DENIED makes every setter refuse, LIMITED leaves the card with a power limit that
 * can be read and nothing else. LOOKED_AT leaves out every setter: card_machine.py writes some that
 * note their names instead. Signatures and codes as NVIDIA's NVML API Reference has them.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, SMALL = 7 };
enum { LEAST_MW = 200000, MOST_MW = 700000, DEFAULT_MW = 700000 };
static const unsigned MEMORY_MHZ[] = {3201, 1593};
static const unsigned GPU_MHZ[] = {1980, 1710, 1410, 1005, 345};
#define UUID "GPU-00000000-0000-0000-0000-000000000001"

typedef struct { unsigned power_mw, gpu_mhz, memory_mhz; } Settings;
static int card;

static Settings load(void) {
    Settings now = {DEFAULT_MW, 0, 0};
    FILE *file = fopen(STATE, "r");
    if (file != NULL) {
        if (fscanf(file, "%u %u %u", &now.power_mw, &now.gpu_mhz, &now.memory_mhz) != 3)
            now.power_mw = DEFAULT_MW;
        fclose(file);
    }
    return now;
}

static int store(Settings now) {
#if defined(DENIED)
    (void)now;
    return NO_PERMISSION;
#elif defined(LIMITED)
    (void)now;
    return UNSUPPORTED;
#else
    FILE *file = fopen(STATE, "w");
    fprintf(file, "%u %u %u\n", now.power_mw, now.gpu_mhz, now.memory_mhz);
    fclose(file);
    return OK;
#endif
}

static int list(const unsigned *from, unsigned n, unsigned *count, unsigned *clocks) {
#if defined(LIMITED)
    (void)from; (void)n; (void)count; (void)clocks;
    return UNSUPPORTED;
#else
    unsigned room = *count;
    *count = n;
    if (clocks == NULL || room < n) return SMALL;
    memcpy(clocks, from, n * sizeof *from);
    return OK;
#endif
}

static int has(const unsigned *among, unsigned n, unsigned low, unsigned high) {
    for (unsigned i = 0; i < n; i++)
        if (among[i] == low && low == high) return 1;
    return 0;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 1; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (index != 0) return INVALID;
    *handle = &card;
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    if (strcmp(uuid, UUID) != 0) return NOT_FOUND;
    *handle = &card;
    return OK;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    (void)handle;
    snprintf(name, length, "Stand-in card");
    return OK;
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
    (void)handle;
    snprintf(uuid, length, UUID);
    return OK;
}

int nvmlDeviceGetPowerManagementLimit(void *handle, unsigned *mw) {
    (void)handle;
    *mw = load().power_mw;
    return OK;
}

int nvmlDeviceGetPowerManagementLimitConstraints(void *handle, unsigned *least, unsigned *most) {
    (void)handle;
#if defined(LIMITED)
    (void)least; (void)most;
    return UNSUPPORTED;
#else
    *least = LEAST_MW;
    *most = MOST_MW;
    return OK;
#endif
}

int nvmlDeviceGetPowerManagementDefaultLimit(void *handle, unsigned *mw) {
    (void)handle;
    *mw = DEFAULT_MW;
    return OK;
}

int nvmlDeviceGetSupportedMemoryClocks(void *handle, unsigned *count, unsigned *clocks) {
    (void)handle;
    return list(MEMORY_MHZ, 2, count, clocks);
}

int nvmlDeviceGetSupportedGraphicsClocks(void *handle, unsigned memory_mhz, unsigned *count,
                                         unsigned *clocks) {
    (void)handle;
    if (!has(MEMORY_MHZ, 2, memory_mhz, memory_mhz)) return NOT_FOUND;
    return list(GPU_MHZ, 5, count, clocks);
}

/* What is looked at beside that: 90 W, 41 °C, clocks at rest. */
int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "580.65.06");
    return OK;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *mw) { (void)handle; *mw = 90000; return OK; }

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *mj) {
    (void)handle;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *mj = 90000ull * now.tv_sec + 90000ull * (now.tv_nsec / 1000000) / 1000;
    return OK;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    (void)handle; (void)sensor;
    *celsius = 41;
    return OK;
}

int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *mhz) {
    (void)handle;
    *mhz = kind == 2 ? 2619 : 345;
    return OK;
}

#if !defined(LOOKED_AT)
int nvmlDeviceSetPowerManagementLimit(void *handle, unsigned mw) {
    (void)handle;
    if (mw < LEAST_MW || mw > MOST_MW) return INVALID;
    Settings now = load();
#if defined(STUBBORN)
    if (mw < now.power_mw) return OK; /* says yes and does nothing */
#endif
    now.power_mw = mw;
    return store(now);
}

int nvmlDeviceSetGpuLockedClocks(void *handle, unsigned low, unsigned high) {
    (void)handle;
    if (!has(GPU_MHZ, 5, low, high)) return INVALID;
    Settings now = load();
    now.gpu_mhz = low;
    return store(now);
}

int nvmlDeviceResetGpuLockedClocks(void *handle) {
    (void)handle;
    Settings now = load();
    now.gpu_mhz = 0;
    return store(now);
}

/* No locking of memory clocks on this one: the functions are missing, as on older drivers. */
#if !defined(OLD)
int nvmlDeviceSetMemoryLockedClocks(void *handle, unsigned low, unsigned high) {
    (void)handle;
    if (!has(MEMORY_MHZ, 2, low, high)) return INVALID;
    Settings now = load();
    now.memory_mhz = low;
    return store(now);
}

int nvmlDeviceResetMemoryLockedClocks(void *handle) {
    (void)handle;
    Settings now = load();
    now.memory_mhz = 0;
    return store(now);
}
#endif
#endif
