/* device.c: the simulated devices and their properties. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int device_count(void)
{
    static int count;
    if (!count) {
        long n = sim_number("SIMGPU_DEVICES", 2);
        count = n < 1 ? 1 : n > SIM_DEVICES_MAX ? SIM_DEVICES_MAX : (int)n;
    }
    return count;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    ENTER_ANY();
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER_ANY();
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER_ANY();
    if (!name || length < 1) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Simulated GPU");
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    ENTER_ANY();
    if (!uuid) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "simulated GPU ", 15);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    ENTER_ANY();
    if (!id || length < 13) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)length, "0000:%02x:00.0", device + 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    ENTER_ANY();
    size_t used;
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    memory_usage(device, &used, bytes);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total)
{
    ENTER();
    size_t used;
    if (!available || !total) return CUDA_ERROR_INVALID_VALUE;
    memory_usage(ctx->device, &used, total);
    *available = *total - used;
    return CUDA_SUCCESS;
}

/* Cards that SIMGPU_CARD names, as their drivers tell; the first without it. */
static const struct {
    const char *name;
    int sm, multiprocessors, threads, cache_mib, memory_khz, bus_bits;
} cards[] = {
    {"H100", 90, 132, 2048, 50, 2619000, 5120},   {"H200", 90, 132, 2048, 60, 3201000, 6144},
    {"V100", 70, 80, 2048, 6, 877000, 4096},      {"T4", 75, 40, 1024, 4, 5001000, 256},
    {"A100", 80, 108, 2048, 40, 1593000, 5120},   {"A40", 86, 84, 1536, 6, 7251000, 384},
    {"L40S", 89, 142, 1536, 96, 9001000, 384},    {"L4", 89, 58, 1536, 48, 6251000, 192},
    {"B200", 100, 148, 2048, 126, 3996000, 8192},
    {"RTX PRO 6000", 120, 188, 1536, 128, 14001000, 512},
};

static int card(void)
{
    const char *name = getenv("SIMGPU_CARD");
    for (int i = 0; name && i < (int)(sizeof cards / sizeof *cards); i++)
        if (!strcmp(cards[i].name, name)) return i;
    return 0;
}

int device_sm(void)
{
    return cards[card()].sm;
}

/* Sets what differs between cards. */
static void card_attribute(CUdevice_attribute attribute, int *value)
{
    int i = card();
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = cards[i].sm / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = cards[i].sm % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = cards[i].multiprocessors; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = cards[i].threads; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = cards[i].cache_mib << 20; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = cards[i].memory_khz; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = cards[i].bus_bits; break;
    }
}

/* Attributes that are not listed are 0. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, SIM_SHARED_MAX},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7fffffff},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
};

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER_ANY();
    if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? device + 1 : 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE) *value = getenv("SIMGPU_CLOCK") ? atoi(getenv("SIMGPU_CLOCK")) : 1000000;
    /* The name says 64-bit: CUDA 13 has no other for the calls' second version. */
    if (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS) *value = sim_number("SIMGPU_MEM_OPS", 1) != 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) *value = attributes[i].value;
    card_attribute(attribute, value);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER_ANY();
    if (!can) return CUDA_ERROR_INVALID_VALUE;
    if (device < 0 || device >= device_count() || peer < 0 || peer >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer && sim_number("SIMGPU_PEERS", 1);
    return CUDA_SUCCESS;
}
