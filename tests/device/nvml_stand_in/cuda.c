/* A stand-in for CUDA's driver: one device, or with ABSENT none that this process may use. */
#include <stdio.h>

#if defined(ABSENT)
int cuInit(unsigned flags) { (void)flags; return 100; } /* CUDA_ERROR_NO_DEVICE */
#else
int cuInit(unsigned flags) { return (int)flags; }
#endif
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    snprintf(name, length, "Stand-in card");
    return 0;
}
