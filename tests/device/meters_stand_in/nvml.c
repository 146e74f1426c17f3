/* A stand-in for NVIDIA's management library: cards that tell their power, or do not.
 *
 * CARDS names the board: 1 a graphics card, 2 Orin (its name alone), 3 AGX Thor (power and
 * temperature), 4 no card at all, 5 a driver that does not start, 6 a card that says 0 W,
 * 7 a card that is lost after its third reading of power.
 * The graphics card draws 100 W and its counter says so: 100 mJ for each millisecond.
 * Signatures and codes as NVIDIA's NVML API Reference has them.
 */
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_LOADED = 9, LOST = 15 };
static int card, n_power;

static unsigned long long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ULL + now.tv_nsec / 1000000;
}

int nvmlInit_v2(void) { return CARDS == 5 ? NOT_LOADED : OK; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return OK; }

const char *nvmlErrorString(int code) {
    return code == UNSUPPORTED ? "Not Supported" : code == LOST ? "GPU is lost" : "Driver Not Loaded";
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = CARDS == 4 ? 0 : 1; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    *handle = &card;
    return index == 0 ? OK : INVALID;
}

int nvmlDeviceGetName(void *handle, char *name, unsigned length) {
    (void)handle;
    strncpy(name, CARDS == 2 ? "Orin (nvgpu)" : CARDS == 3 ? "NVIDIA Thor" : "Some\033Card", length);
    return OK;
}

int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
    (void)handle;
    *milliwatts = CARDS == 3 ? 1965 : CARDS == 6 ? 0 : 100000;
    if (CARDS == 7 && ++n_power > 3) return LOST;
    return CARDS == 2 ? UNSUPPORTED : OK;
}

int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
    (void)handle;
    *millijoules = 100 * milliseconds();
    return CARDS == 1 ? OK : UNSUPPORTED;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *celsius) {
    (void)handle;
    *celsius = 36;
    return sensor == 0 && CARDS != 2 ? OK : UNSUPPORTED;
}

int nvmlDeviceGetClockInfo(void *handle, int kind, unsigned *megahertz) {
    (void)handle;
    *megahertz = kind == 1 ? 1980 : 3201;
    return CARDS == 1 ? OK : UNSUPPORTED;
}
