#define _GNU_SOURCE // dladdr
#include "mpi.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// The binary interfaces and their handles: addresses of symbols in Open MPI, integers in MPICH and libraries
// with its interface, integers stored in pointers in the standard interface (MPI 5.0, chapter 20).
enum { OPEN_MPI, MPICH, STANDARD };

enum { TAG = 1 };

static struct {
	void *library;
	int interface;
	int funneled; // MPI_THREAD_FUNNELED: only one thread calls the library
	goggml_mpi_handle world, f32, f64, byte, plus, errors_return;
	void *status_ignore;
	void *get_library_version, *init_thread, *comm_rank, *comm_size, *comm_set_errhandler, *iallreduce, *iallgather, *ibcast, *isend,
		*irecv, *iprobe, *test, *error_string, *finalize;
} mpi;

#define HANDLE void *
#define OF(h) ((h).pointer)
#define NAME(f) pointer_##f
#include "calls.h"
#undef HANDLE
#undef OF
#undef NAME
#define HANDLE int
#define OF(h) ((h).number)
#define NAME(f) number_##f
#include "calls.h"

#define CALL(f, ...) (mpi.interface == MPICH ? number_##f(__VA_ARGS__) : pointer_##f(__VA_ARGS__))

static goggml_mpi_handle pointer(uintptr_t p) { return (goggml_mpi_handle){.pointer = (void *)p}; }
static goggml_mpi_handle number(int n) { return (goggml_mpi_handle){.number = n}; }

static bool find(const char *path, const char *name, void **symbol, char *error, size_t size) {
	*symbol = dlsym(mpi.library, name);
	if (*symbol == NULL) {
		snprintf(error, size, "%s has no %s", path, name);
	}
	return *symbol != NULL;
}

static bool find_handle(const char *path, const char *name, goggml_mpi_handle *h, char *error, size_t size) {
	return find(path, name, &h->pointer, error, size);
}

static bool find_functions(const char *path, char *error, size_t size) {
	const struct {
		const char *name;
		void **function;
	} list[] = {
		{"MPI_Get_library_version", &mpi.get_library_version},
		{"MPI_Init_thread", &mpi.init_thread},
		{"MPI_Comm_rank", &mpi.comm_rank},
		{"MPI_Comm_size", &mpi.comm_size},
		{"MPI_Comm_set_errhandler", &mpi.comm_set_errhandler},
		{"MPI_Iallreduce", &mpi.iallreduce},
		{"MPI_Iallgather", &mpi.iallgather},
		{"MPI_Ibcast", &mpi.ibcast},
		{"MPI_Isend", &mpi.isend},
		{"MPI_Irecv", &mpi.irecv},
		{"MPI_Iprobe", &mpi.iprobe},
		{"MPI_Test", &mpi.test},
		{"MPI_Error_string", &mpi.error_string},
		{"MPI_Finalize", &mpi.finalize},
	};
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		if (!find(path, list[i].name, list[i].function, error, size)) {
			return false;
		}
	}
	return true;
}

static bool find_handles(const char *path, char *error, size_t size) {
	switch (mpi.interface) {
	case OPEN_MPI:
		mpi.funneled = 1;
		mpi.status_ignore = NULL;
		return find_handle(path, "ompi_mpi_comm_world", &mpi.world, error, size) &&
			find_handle(path, "ompi_mpi_float", &mpi.f32, error, size) &&
			find_handle(path, "ompi_mpi_double", &mpi.f64, error, size) &&
			find_handle(path, "ompi_mpi_byte", &mpi.byte, error, size) &&
			find_handle(path, "ompi_mpi_op_sum", &mpi.plus, error, size) &&
			find_handle(path, "ompi_mpi_errors_return", &mpi.errors_return, error, size);
	case MPICH:
		mpi.funneled = 1;
		mpi.status_ignore = (void *)1;
		mpi.world = number(0x44000000);
		mpi.f32 = number(0x4c00040a);
		mpi.f64 = number(0x4c00080b);
		mpi.byte = number(0x4c00010d);
		mpi.plus = number(0x58000003);
		mpi.errors_return = number(0x54000001);
		return true;
	default:
		mpi.funneled = 1024;
		mpi.status_ignore = NULL;
		mpi.world = pointer(0x101);
		mpi.f32 = pointer(0x210);
		mpi.f64 = pointer(0x214);
		mpi.byte = pointer(0x247);
		mpi.plus = pointer(0x21);
		mpi.errors_return = pointer(0x143);
		return true;
	}
}

bool goggml_mpi_open(const char *path, char *error, size_t size) {
	mpi.library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (mpi.library == NULL) {
		snprintf(error, size, "%s", dlerror());
		return false;
	}
	// A library with both interfaces has MPI_Abi_get_version, too.
	mpi.interface = dlsym(mpi.library, "ompi_mpi_comm_world") != NULL ? OPEN_MPI : strstr(path, "mpi_abi") != NULL ? STANDARD : MPICH;
	if (find_functions(path, error, size) && find_handles(path, error, size)) {
		return true;
	}
	goggml_mpi_close();
	return false;
}

void goggml_mpi_close(void) {
	dlclose(mpi.library);
	mpi.library = NULL;
}

void goggml_mpi_version(char *text, size_t size) {
	char whole[8192 + 1] = ""; // MPI_MAX_LIBRARY_VERSION_STRING is 8192 at most
	int length = 0;
	((int (*)(char *, int *))mpi.get_library_version)(whole, &length);
	whole[strcspn(whole, "\n")] = '\0';
	snprintf(text, size, "%s", whole);
}

int goggml_mpi_init(void) {
	// The library's own plugins look up its symbols in the global scope. No other library is there that they
	// could find.
	Dl_info info;
	if (dladdr(mpi.init_thread, &info) != 0) {
		dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL);
	}
	struct sigaction handlers[NSIG];
	bool known[NSIG];
	for (int i = 1; i < NSIG; i++) {
		known[i] = sigaction(i, NULL, &handlers[i]) == 0;
	}
	int provided = 0;
	int code = ((int (*)(int *, char ***, int, int *))mpi.init_thread)(NULL, NULL, mpi.funneled, &provided);
	for (int i = 1; i < NSIG; i++) {
		if (known[i]) {
			sigaction(i, &handlers[i], NULL);
		}
	}
	return code != 0 ? code : CALL(return_errors);
}

int goggml_mpi_place(int *rank, int *size) { return CALL(place, rank, size); }

int goggml_mpi_begin(enum goggml_mpi_collective what, const void *send, void *receive, int n, goggml_mpi_handle *request) {
	switch (what) {
	case GOGGML_MPI_GATHER:
		return CALL(gather, send, receive, n, request);
	case GOGGML_MPI_BROADCAST:
		return CALL(broadcast, receive, n, request);
	default:
		return CALL(sum, what == GOGGML_MPI_SUM_DOUBLES ? mpi.f64 : mpi.f32, send, receive, n, request);
	}
}

int goggml_mpi_send(const char *bytes, int n, int to, goggml_mpi_handle *request) { return CALL(send, bytes, n, to, request); }

int goggml_mpi_receive(char *bytes, int n, int from, goggml_mpi_handle *request) { return CALL(receive, bytes, n, from, request); }

int goggml_mpi_test(goggml_mpi_handle *request, int *done) { return CALL(test, request, done); }

int goggml_mpi_progress(void) { return CALL(progress); }

int goggml_mpi_finalize(void) { return ((int (*)(void))mpi.finalize)(); }

void goggml_mpi_error(int code, char *text, size_t size) {
	char whole[1024] = ""; // MPI_MAX_ERROR_STRING is 512 at most
	int length = 0;
	((int (*)(int, char *, int *))mpi.error_string)(code, whole, &length);
	snprintf(text, size, "%s", whole);
}

void goggml_mpi_pause(long nanoseconds) { nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL); }
