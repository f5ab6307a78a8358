// The functions of an MPI library that is loaded at run time, for the three binary interfaces that there are.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A request is a handle of any of the interfaces.
typedef union {
	void *pointer;
	int number;
} goggml_mpi_handle;

// Loads a library. Returns false with the reason in error.
bool goggml_mpi_open(const char *path, char *error, size_t size);
// Lets go of it, as long as it has not been initialised.
void goggml_mpi_close(void);
// What the library says of itself; works before goggml_mpi_init.
void goggml_mpi_version(char *text, size_t size);

// All others return 0 or an error code, and are called on one thread. goggml_mpi_init restores the
// process's signal handlers, because Go has installed its own by then.
int goggml_mpi_init(void);
int goggml_mpi_place(int *rank, int *size);

// What all processes begin in the same order.
enum goggml_mpi_collective {
	GOGGML_MPI_SUM_FLOATS,  // n floats of each
	GOGGML_MPI_SUM_DOUBLES, // n doubles of each
	GOGGML_MPI_GATHER,      // n bytes of each, by rank
	GOGGML_MPI_BROADCAST,   // n bytes of rank 0
};
int goggml_mpi_begin(enum goggml_mpi_collective what, const void *send, void *receive, int n, goggml_mpi_handle *request);
int goggml_mpi_send(const char *bytes, int n, int to, goggml_mpi_handle *request);
int goggml_mpi_receive(char *bytes, int n, int from, goggml_mpi_handle *request);
int goggml_mpi_test(goggml_mpi_handle *request, int *done);
int goggml_mpi_finalize(void);
void goggml_mpi_error(int code, char *text, size_t size);

// Gives up the processor for so long.
void goggml_mpi_pause(long nanoseconds);
