// Functions of an MPI library that is loaded at run time, for the three existing binary interfaces.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A request is a handle of one of the interfaces.
typedef union {
	void *pointer;
	int number;
} goggml_mpi_handle;

// Loads a library. Returns false and the reason in error if that fails.
bool goggml_mpi_open(const char *path, char *error, size_t size);
// Unloads it, unless it has been initialised.
void goggml_mpi_close(void);
// Returns the library's description of itself; works before goggml_mpi_init.
void goggml_mpi_version(char *text, size_t size);

// All others return 0 or an error code, and are called on one thread. goggml_mpi_init restores the process's
// signal handlers, because Go has already installed its own.
int goggml_mpi_init(void);
int goggml_mpi_place(int *rank, int *size);

// Collectives, which all processes must begin in the same order.
enum goggml_mpi_collective {
	GOGGML_MPI_SUM_FLOATS,  // n floats per process
	GOGGML_MPI_SUM_DOUBLES, // n doubles per process
	GOGGML_MPI_GATHER,      // n bytes per process, by rank
	GOGGML_MPI_BROADCAST,   // n bytes of rank 0
};
int goggml_mpi_begin(enum goggml_mpi_collective what, const void *send, void *receive, int n, goggml_mpi_handle *request);
int goggml_mpi_send(const char *bytes, int n, int to, goggml_mpi_handle *request);
int goggml_mpi_receive(char *bytes, int n, int from, goggml_mpi_handle *request);
int goggml_mpi_test(goggml_mpi_handle *request, int *done);
int goggml_mpi_progress(void);
int goggml_mpi_finalize(void);
void goggml_mpi_error(int code, char *text, size_t size);

// Yields the processor for a duration.
void goggml_mpi_pause(long nanoseconds);
