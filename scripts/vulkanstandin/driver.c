// A Vulkan driver that forwards to another one, Mesa's software driver, but can have less memory or lose its
// device for tests:
//
//   GOGGML_VULKAN_MEMORY=BYTES   the device has so much memory
//   GOGGML_VULKAN_REFUSE=BYTES   it has less than it says, and refuses what goes beyond that
//   GOGGML_VULKAN_LOST=FILE      it is lost as long as the file is there
//
// They are read at each call. DRIVER is the path of the other driver. A call that asks whether a computation
// has ended waits for a moment. Types follow Vulkan's ABI; only the members in use are named here.
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOT_READY = 1, TIMEOUT = 2, OUT_OF_DEVICE_MEMORY = -2, INITIALIZATION_FAILED = -3, DEVICE_LOST = -4 };
enum { MEMORY_BUDGET_PROPERTIES = 1000237000 }; // type of a structure

typedef struct { uint32_t flags, heap; } memory_type;
typedef struct { uint64_t size; uint32_t flags; } memory_heap;
typedef struct { uint32_t n_types; memory_type types[32]; uint32_t n_heaps; memory_heap heaps[16]; } memory_properties;
typedef struct structure { int32_t type; struct structure *next; } structure;
typedef struct { structure head; memory_properties properties; } memory_properties2;
typedef struct { structure head; uint64_t budget[16], usage[16]; } memory_budget;
typedef struct { structure head; uint64_t size; uint32_t type; } allocate_info;

typedef void (*function)(void);

// The driver that does the work: its functions by name, and the intercepted functions of its instance and
// device. There is one of each.
static void *library;
static function (*find)(void *instance, const char *name);
static function (*find_physical)(void *instance, const char *name);
static function (*find_of_device)(void *device, const char *name);
static struct {
	function memory_properties, memory_properties2, allocate, release, submit, submit2, status, wait, wait_semaphores, idle, queue_idle;
} real;

static uint64_t number(const char *variable) {
	const char *text = getenv(variable);
	return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static bool is_lost(void) {
	const char *file = getenv("GOGGML_VULKAN_LOST");
	return file != NULL && access(file, F_OK) == 0;
}

// Allocations by handle.
typedef struct allocation { uint64_t handle, size; struct allocation *next; } allocation;
static allocation *allocations;
static uint64_t allocated;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int32_t allocate(void *device, const allocate_info *info, const void *callbacks, uint64_t *memory) {
	uint64_t limit = number("GOGGML_VULKAN_REFUSE");
	pthread_mutex_lock(&mutex);
	bool refused = limit > 0 && allocated + info->size > limit;
	pthread_mutex_unlock(&mutex);
	if (refused) {
		return OUT_OF_DEVICE_MEMORY;
	}
	int32_t result = ((int32_t (*)(void *, const allocate_info *, const void *, uint64_t *))real.allocate)(device, info, callbacks, memory);
	if (result == 0) {
		allocation *a = malloc(sizeof *a);
		pthread_mutex_lock(&mutex);
		*a = (allocation){*memory, info->size, allocations};
		allocations = a;
		allocated += info->size;
		pthread_mutex_unlock(&mutex);
	}
	return result;
}

static void release(void *device, uint64_t memory, const void *callbacks) {
	pthread_mutex_lock(&mutex);
	for (allocation **a = &allocations; *a != NULL; a = &(*a)->next) {
		if ((*a)->handle == memory) {
			allocation *gone = *a;
			*a = gone->next;
			allocated -= gone->size;
			free(gone);
			break;
		}
	}
	pthread_mutex_unlock(&mutex);
	((void (*)(void *, uint64_t, const void *))real.release)(device, memory, callbacks);
}

static void limit_heaps(memory_properties *p) {
	uint64_t limit = number("GOGGML_VULKAN_MEMORY");
	for (uint32_t i = 0; limit > 0 && i < p->n_heaps; i++) {
		p->heaps[i].size = limit;
	}
}

static void get_memory_properties(void *device, memory_properties *p) {
	((void (*)(void *, memory_properties *))real.memory_properties)(device, p);
	limit_heaps(p);
}

static void get_memory_properties2(void *device, memory_properties2 *p) {
	((void (*)(void *, memory_properties2 *))real.memory_properties2)(device, p);
	limit_heaps(&p->properties);
	for (structure *s = p->head.next; s != NULL; s = s->next) {
		if (s->type == MEMORY_BUDGET_PROPERTIES && number("GOGGML_VULKAN_MEMORY") > 0) {
			memory_budget *b = (memory_budget *)s;
			for (uint32_t i = 0; i < p->properties.n_heaps; i++) {
				b->budget[i] = p->properties.heaps[i].size;
				b->usage[i] = allocated;
			}
		}
	}
}

// Functions that fail if the device is lost; all take a handle first.
static int32_t submit(void *queue, uint32_t n, const void *submits, uint64_t fence) {
	return is_lost() ? DEVICE_LOST : ((int32_t (*)(void *, uint32_t, const void *, uint64_t))real.submit)(queue, n, submits, fence);
}

static int32_t submit2(void *queue, uint32_t n, const void *submits, uint64_t fence) {
	return is_lost() ? DEVICE_LOST : ((int32_t (*)(void *, uint32_t, const void *, uint64_t))real.submit2)(queue, n, submits, fence);
}

static int32_t wait_for_fences(void *device, uint32_t n, const uint64_t *fences, uint32_t all, uint64_t timeout) {
	return is_lost() ? DEVICE_LOST : ((int32_t (*)(void *, uint32_t, const uint64_t *, uint32_t, uint64_t))real.wait)(device, n, fences, all, timeout);
}

// ggml polls it in a loop, which would take the processor from the computing thread.
static int32_t fence_status(void *device, uint64_t fence) {
	const uint64_t moment = 1000000; // ns
	int32_t result = wait_for_fences(device, 1, &fence, 1, moment);
	return result == TIMEOUT ? NOT_READY : result;
}

static int32_t wait_semaphores(void *device, const void *info, uint64_t timeout) {
	return is_lost() ? DEVICE_LOST : ((int32_t (*)(void *, const void *, uint64_t))real.wait_semaphores)(device, info, timeout);
}

static int32_t device_wait_idle(void *device) { return is_lost() ? DEVICE_LOST : ((int32_t (*)(void *))real.idle)(device); }

static int32_t queue_wait_idle(void *queue) { return is_lost() ? DEVICE_LOST : ((int32_t (*)(void *))real.queue_idle)(queue); }

static function device_function(void *device, const char *name);

static const struct { const char *name; function *real, ours; } taken_over[] = {
	{"vkGetPhysicalDeviceMemoryProperties", &real.memory_properties, (function)get_memory_properties},
	{"vkGetPhysicalDeviceMemoryProperties2", &real.memory_properties2, (function)get_memory_properties2},
	{"vkGetPhysicalDeviceMemoryProperties2KHR", &real.memory_properties2, (function)get_memory_properties2},
	{"vkAllocateMemory", &real.allocate, (function)allocate},
	{"vkFreeMemory", &real.release, (function)release},
	{"vkQueueSubmit", &real.submit, (function)submit},
	{"vkQueueSubmit2", &real.submit2, (function)submit2},
	{"vkQueueSubmit2KHR", &real.submit2, (function)submit2},
	{"vkGetFenceStatus", &real.status, (function)fence_status},
	{"vkWaitForFences", &real.wait, (function)wait_for_fences},
	{"vkWaitSemaphores", &real.wait_semaphores, (function)wait_semaphores},
	{"vkWaitSemaphoresKHR", &real.wait_semaphores, (function)wait_semaphores},
	{"vkDeviceWaitIdle", &real.idle, (function)device_wait_idle},
	{"vkQueueWaitIdle", &real.queue_idle, (function)queue_wait_idle},
	{"vkGetDeviceProcAddr", (function *)&find_of_device, (function)device_function},
};

// replaced returns the driver's function, or its replacement.
static function replaced(const char *name, function found) {
	for (size_t i = 0; found != NULL && i < sizeof taken_over / sizeof *taken_over; i++) {
		if (strcmp(name, taken_over[i].name) == 0) {
			*taken_over[i].real = found;
			return taken_over[i].ours;
		}
	}
	return found;
}

static function device_function(void *device, const char *name) { return replaced(name, find_of_device(device, name)); }

static bool open_driver(void) {
	library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "the stand-in for a driver of Vulkan: %s\n", dlerror());
		return false;
	}
	find = (function (*)(void *, const char *))dlsym(library, "vk_icdGetInstanceProcAddr");
	find_physical = (function (*)(void *, const char *))dlsym(library, "vk_icdGetPhysicalDeviceProcAddr");
	return find != NULL;
}

// The entry points that Vulkan's loader requires of a driver.
int32_t vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
	if (find == NULL && !open_driver()) {
		return INITIALIZATION_FAILED;
	}
	int32_t (*negotiate)(uint32_t *) = (int32_t (*)(uint32_t *))dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
	return negotiate != NULL ? negotiate(version) : 0;
}

function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
	return find != NULL ? replaced(name, find(instance, name)) : NULL;
}

function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
	return find_physical != NULL ? replaced(name, find_physical(instance, name)) : NULL;
}
