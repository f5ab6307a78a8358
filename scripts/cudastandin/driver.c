// libcuda.so.1: the functions of the driver that ggml calls directly, for the virtual memory of its pools.
// There is none here, so the pools allocate through the runtime.
#include <stddef.h>

enum { CUDA_SUCCESS = 0, CUDA_ERROR_NOT_SUPPORTED = 801 };

typedef unsigned long long cu_handle;

int cuDeviceGet(int *device, int ordinal) {
	*device = ordinal;
	return CUDA_SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
	(void)attribute, (void)device;
	*value = 0;
	return CUDA_SUCCESS;
}

int cuGetErrorString(int error, const char **text) {
	*text = error == CUDA_SUCCESS ? "no error" : "not supported by the stand-in";
	return CUDA_SUCCESS;
}

int cuMemGetAllocationGranularity(size_t *granularity, const void *properties, int option) {
	(void)properties, (void)option;
	*granularity = 2 << 20;
	return CUDA_SUCCESS;
}

int cuMemAddressReserve(cu_handle *address, size_t size, size_t alignment, cu_handle fixed, cu_handle flags) {
	(void)address, (void)size, (void)alignment, (void)fixed, (void)flags;
	return CUDA_ERROR_NOT_SUPPORTED;
}

int cuMemAddressFree(cu_handle address, size_t size) {
	(void)address, (void)size;
	return CUDA_ERROR_NOT_SUPPORTED;
}

int cuMemCreate(cu_handle *handle, size_t size, const void *properties, cu_handle flags) {
	(void)handle, (void)size, (void)properties, (void)flags;
	return CUDA_ERROR_NOT_SUPPORTED;
}

int cuMemRelease(cu_handle handle) {
	(void)handle;
	return CUDA_ERROR_NOT_SUPPORTED;
}

int cuMemMap(cu_handle address, size_t size, size_t offset, cu_handle handle, cu_handle flags) {
	(void)address, (void)size, (void)offset, (void)handle, (void)flags;
	return CUDA_ERROR_NOT_SUPPORTED;
}

int cuMemUnmap(cu_handle address, size_t size) {
	(void)address, (void)size;
	return CUDA_ERROR_NOT_SUPPORTED;
}

int cuMemSetAccess(cu_handle address, size_t size, const void *access, size_t count) {
	(void)address, (void)size, (void)access, (void)count;
	return CUDA_ERROR_NOT_SUPPORTED;
}
