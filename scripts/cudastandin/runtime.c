// libcudart.so.12: one device of compute capability 9.0. Its memory is system memory, committed as it is
// written. Copies larger than COPIED are skipped, because nothing computes with the data: models of any size
// fit. GOGGML_CUDA_MEMORY sets the device's memory in bytes (default 80 GB); allocations beyond it fail. While
// the file that GOGGML_CUDA_LOST names exists, the device is lost: every call fails.
#include "trace.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COPIED = 64 << 10, PAGE = 4096, CAPABILITY_MAJOR = 9, CAPABILITY_MINOR = 0 };
enum { SUCCESS = 0, NO_MEMORY = 2, LAUNCH_FAILURE = 719 };

typedef struct { unsigned x, y, z; } dim3;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *trace;
static const char *lost;
static size_t total = 80000000000, used;

__attribute__((constructor)) static void standin_open(void) {
	const char *file = getenv("GOGGML_CUDA_TRACE"), *memory = getenv("GOGGML_CUDA_MEMORY");
	lost = getenv("GOGGML_CUDA_LOST");
	trace = file != NULL ? fopen(file, "a") : NULL;
	if (trace != NULL) {
		setlinebuf(trace); // readers follow the file while it grows
	}
	if (memory != NULL) {
		total = strtoull(memory, NULL, 10);
	}
}

static int status(void) { return lost != NULL && access(lost, F_OK) == 0 ? LAUNCH_FAILURE : SUCCESS; }

void standin_trace(const char *format, ...) {
	if (trace == NULL) {
		return;
	}
	va_list args;
	va_start(args, format);
	vfprintf(trace, format, args);
	va_end(args);
}

// Kernels, by the address of their host function.

typedef struct { const void *function; const char *name; } kernel;

static kernel *kernels;
static size_t n_kernels, room;
static bool sorted;

static int by_address(const void *a, const void *b) {
	const kernel *x = a, *y = b;
	return (x->function > y->function) - (x->function < y->function);
}

static const char *kernel_name(const void *function) {
	pthread_mutex_lock(&lock);
	if (!sorted) {
		qsort(kernels, n_kernels, sizeof *kernels, by_address);
		sorted = true;
	}
	const kernel *found = bsearch(&(kernel){function, NULL}, kernels, n_kernels, sizeof *kernels, by_address);
	pthread_mutex_unlock(&lock);
	return found != NULL ? found->name : "?";
}

static int launch(const void *function, dim3 grid, dim3 block) {
	standin_trace("kernel %s %u,%u,%u %u,%u,%u\n", kernel_name(function), grid.x, grid.y, grid.z, block.x, block.y, block.z);
	return status();
}

void **__cudaRegisterFatBinary(void *fatbin) {
	static void *any;
	(void)fatbin;
	return &any;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { (void)handle; }

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *tid, void *bid, void *block, void *grid, int *warp) {
	(void)handle, (void)device, (void)threads, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
	if (n_kernels == room) {
		room = room != 0 ? 2 * room : 4096;
		kernels = realloc(kernels, room * sizeof *kernels);
		if (kernels == NULL) {
			abort();
		}
	}
	kernels[n_kernels++] = (kernel){host, name};
	sorted = false;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size, int constant, int global) {
	(void)handle, (void)host, (void)device, (void)name, (void)external, (void)size, (void)constant, (void)global;
}

static __thread struct { dim3 grid, block; size_t shared; void *stream; } configuration;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
	configuration.grid = grid, configuration.block = block, configuration.shared = shared, configuration.stream = stream;
	return 0;
}

int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream) {
	*grid = configuration.grid, *block = configuration.block, *shared = configuration.shared, *stream = configuration.stream;
	return SUCCESS;
}

int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared, void *stream) {
	(void)args, (void)shared, (void)stream;
	return launch(function, grid, block);
}

int cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared, void *stream) {
	(void)args, (void)shared, (void)stream;
	return launch(function, grid, block);
}

typedef struct { dim3 grid, block; size_t shared; void *stream, *attributes; unsigned n_attributes; } launch_config;

int cudaLaunchKernelExC(const launch_config *config, const void *function, void **args) {
	(void)args;
	return launch(function, config->grid, config->block);
}

// The properties of a device, in CUDA 12's layout.
typedef struct {
	char name[256], uuid[16], luid[8];
	unsigned luid_mask;
	size_t memory, shared_per_block;
	int registers_per_block, warp_size;
	size_t pitch;
	int threads_per_block, threads_dim[3], grid_size[3], clock_rate;
	size_t constant_memory;
	int major, minor;
	size_t texture_alignment, texture_pitch_alignment;
	int overlap, processors, kernel_timeout, integrated, map_host_memory, compute_mode, textures[40];
	size_t surface_alignment;
	int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing, memory_clock, memory_bus_width, l2_size,
		l2_persisting, threads_per_processor, stream_priorities, global_l1, local_l1;
	size_t shared_per_processor;
	int registers_per_processor, managed_memory, multi_gpu_board, multi_gpu_group, native_atomics, single_to_double, pageable_access,
		concurrent_managed, preemption, registered_pointer, cooperative_launch, cooperative_multi_launch;
	size_t shared_per_block_optin;
	int pageable_page_tables, direct_managed, blocks_per_processor, access_window;
	size_t reserved_shared_per_block;
	int rest[76];
} properties;

_Static_assert(sizeof(properties) == 1032, "the properties of CUDA 12 have 1032 bytes");

int cudaGetDeviceProperties_v2(properties *p, int device) {
	*p = (properties){
		.name = "stand-in for a GPU", .memory = total, .shared_per_block = 49152, .registers_per_block = 65536, .warp_size = 32,
		.threads_per_block = 1024, .threads_dim = {1024, 1024, 64}, .grid_size = {INT32_MAX, 65535, 65535},
		.major = CAPABILITY_MAJOR, .minor = CAPABILITY_MINOR, .processors = 132, .map_host_memory = 1, .concurrent_kernels = 1,
		.pci_bus = device + 1, .async_engines = 3, .unified_addressing = 1, .l2_size = 60 << 20, .threads_per_processor = 2048,
		.shared_per_processor = 233472, .registers_per_processor = 65536, .managed_memory = 1, .cooperative_launch = 1,
		.shared_per_block_optin = 232448, .blocks_per_processor = 32, .reserved_shared_per_block = 1024,
	};
	return SUCCESS;
}

enum { ATTRIBUTE_PROCESSORS = 16, ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76, ATTRIBUTE_SHARED_OPTIN = 97 };

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
	(void)device;
	switch (attribute) {
	case ATTRIBUTE_PROCESSORS: *value = 132; break;
	case ATTRIBUTE_MAJOR: *value = CAPABILITY_MAJOR; break;
	case ATTRIBUTE_MINOR: *value = CAPABILITY_MINOR; break;
	case ATTRIBUTE_SHARED_OPTIN: *value = 232448; break;
	default: *value = 1;
	}
	return SUCCESS;
}

typedef struct {
	size_t shared, constant, local;
	int threads_per_block, registers, ptx, binary, cache, max_dynamic_shared, carveout, rest[18];
} function_attributes;

int cudaFuncGetAttributes(function_attributes *a, const void *function) {
	(void)function;
	const int version = 10 * CAPABILITY_MAJOR + CAPABILITY_MINOR;
	a->shared = a->constant = a->local = 0;
	a->threads_per_block = 1024, a->registers = 64, a->ptx = version, a->binary = version;
	a->cache = 0, a->max_dynamic_shared = 232448, a->carveout = 0;
	return SUCCESS;
}

int cudaFuncSetAttribute(const void *function, int attribute, int value) {
	(void)function, (void)attribute, (void)value;
	return SUCCESS;
}

int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function, int size, size_t shared, unsigned flags) {
	(void)function, (void)size, (void)shared, (void)flags;
	*blocks = 2;
	return SUCCESS;
}

int cudaGetDeviceCount(int *n) { *n = 1; return SUCCESS; }
int cudaGetDevice(int *device) { *device = 0; return SUCCESS; }
int cudaSetDevice(int device) { (void)device; return SUCCESS; }
int cudaSetDeviceFlags(unsigned flags) { (void)flags; return SUCCESS; }
int cudaDeviceCanAccessPeer(int *can, int device, int peer) { (void)device, (void)peer; *can = 1; return SUCCESS; }
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { (void)peer, (void)flags; return SUCCESS; }
int cudaGetLastError(void) { return status(); }
int cudaPeekAtLastError(void) { return status(); }

int cudaDeviceGetPCIBusId(char *id, int size, int device) {
	snprintf(id, (size_t)size, "0000:%02x:00.0", device + 1);
	return SUCCESS;
}

const char *cudaGetErrorString(int error) {
	switch (error) {
	case SUCCESS: return "no error";
	case NO_MEMORY: return "out of memory";
	case LAUNCH_FAILURE: return "unspecified launch failure";
	default: return "failure of the stand-in";
	}
}

// Memory. A page before each allocation stores its size.

static int get(void **p, size_t size) {
	char *start = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED) {
		return NO_MEMORY;
	}
	memcpy(start, &size, sizeof size);
	*p = start + PAGE;
	return SUCCESS;
}

static size_t size_of(const void *p) {
	size_t size;
	memcpy(&size, (const char *)p - PAGE, sizeof size);
	return size;
}

static int put(void *p) {
	if (p != NULL) {
		munmap((char *)p - PAGE, size_of(p) + PAGE);
	}
	return SUCCESS;
}

// count adds to the allocated bytes; it returns false if the device has too little memory.
static bool count(size_t size) {
	pthread_mutex_lock(&lock);
	bool fits = size <= total - used;
	if (fits) {
		used += size;
	}
	pthread_mutex_unlock(&lock);
	return fits;
}

int cudaMalloc(void **p, size_t size) {
	if (status() != SUCCESS) {
		return status();
	}
	if (!count(size)) {
		return NO_MEMORY;
	}
	standin_trace("malloc %zu\n", size);
	return get(p, size);
}

int cudaMallocManaged(void **p, size_t size, unsigned flags) {
	(void)flags;
	return cudaMalloc(p, size);
}

int cudaFree(void *p) {
	if (status() != SUCCESS) {
		return status();
	}
	if (p != NULL) {
		standin_trace("free %zu\n", size_of(p));
		pthread_mutex_lock(&lock);
		used -= size_of(p);
		pthread_mutex_unlock(&lock);
	}
	return put(p);
}

int cudaMemGetInfo(size_t *unused, size_t *all) {
	pthread_mutex_lock(&lock);
	*unused = total - used;
	pthread_mutex_unlock(&lock);
	*all = total;
	return status();
}

int cudaHostAlloc(void **p, size_t size, unsigned flags) { (void)flags; return get(p, size); }
int cudaMallocHost(void **p, size_t size) { return get(p, size); }
int cudaFreeHost(void *p) { return put(p); }
int cudaHostGetDevicePointer(void **device, void *host, unsigned flags) { (void)flags; *device = host; return SUCCESS; }
int cudaHostRegister(void *p, size_t size, unsigned flags) { (void)p, (void)size, (void)flags; return SUCCESS; }
int cudaHostUnregister(void *p) { (void)p; return SUCCESS; }

static const char *direction(int kind) {
	static const char *const names[] = {"host-to-host", "host-to-device", "device-to-host", "device-to-device"};
	return kind >= 0 && kind < 4 ? names[kind] : "default";
}

static void copy(void *to, const void *from, size_t size) {
	if (size <= COPIED) {
		memcpy(to, from, size);
	}
}

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
	(void)stream;
	standin_trace("copy %s %zu\n", direction(kind), size);
	copy(to, from, size);
	return status();
}

int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, void *stream) {
	(void)to_device, (void)from_device, (void)stream;
	standin_trace("copy peer %zu\n", size);
	copy(to, from, size);
	return status();
}

int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind, void *stream) {
	(void)stream;
	standin_trace("copy %s %zu\n", direction(kind), width * height);
	for (size_t i = 0; width * height <= COPIED && i < height; i++) {
		memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
	}
	return status();
}

int cudaMemset(void *p, int value, size_t size) {
	standin_trace("set %zu\n", size);
	if (size <= COPIED) {
		memset(p, value, size);
	}
	return status();
}

int cudaMemsetAsync(void *p, int value, size_t size, void *stream) {
	(void)stream;
	return cudaMemset(p, value, size);
}

// Streams and events: everything completes immediately.

static char any;

int cudaStreamCreateWithFlags(void **stream, unsigned flags) { (void)flags; *stream = &any; return SUCCESS; }
int cudaStreamDestroy(void *stream) { (void)stream; return SUCCESS; }
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { (void)stream, (void)event, (void)flags; return SUCCESS; }
int cudaEventCreateWithFlags(void **event, unsigned flags) { (void)flags; *event = &any; return SUCCESS; }
int cudaEventDestroy(void *event) { (void)event; return SUCCESS; }
int cudaEventRecord(void *event, void *stream) { (void)event, (void)stream; return SUCCESS; }
int cudaEventSynchronize(void *event) { (void)event; return SUCCESS; }

int cudaStreamSynchronize(void *stream) {
	(void)stream;
	standin_trace("synchronize\n");
	return status();
}

int cudaDeviceSynchronize(void) {
	standin_trace("synchronize\n");
	return status();
}
