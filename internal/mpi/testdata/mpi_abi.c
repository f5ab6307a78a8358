// An MPI with the standard interface for one process, rank 0 of two. The simulated other process lives, stops
// and leaves as this one does, adds nothing, and sends zeros. A sum ends after a number of tests, as one of
// many parts does. If the variable MPI_HANG contains their names, MPI_Init_thread and MPI_Finalize never
// return, and the sums of MPI_Iallreduce never end; if MPI_BEHIND is set, the other process has begun none of
// them.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUM_TESTS = 20 };

static char request[3]; // their addresses are handles
static char *const sum = &request[0], *const sending = &request[1], *const receiving = &request[2];

static char said[9], *hearing;
static bool news;
static int tests, sums;

int MPI_Get_library_version(char *text, int *length) {
	strcpy(text, "Test 1.0");
	*length = (int)strlen(text);
	return 0;
}

static bool hangs(const char *function) { return getenv("MPI_HANG") != NULL && strcmp(getenv("MPI_HANG"), function) == 0; }

static void hang(const char *function) {
	while (hangs(function)) {
		pause();
	}
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
	hang("MPI_Init_thread");
	*provided = required;
	return 0;
}

int MPI_Comm_rank(void *comm, int *rank) {
	*rank = 0;
	return 0;
}

int MPI_Comm_size(void *comm, int *size) {
	*size = 2;
	return 0;
}

int MPI_Comm_set_errhandler(void *comm, void *handler) { return 0; }

static void begin(char **handle) {
	tests = 0;
	sums++;
	*handle = sum;
}

int MPI_Iallreduce(const void *send, void *receive, int n, void *type, void *op, void *comm, char **handle) {
	memcpy(receive, send, (type == (void *)0x210 ? sizeof(float) : sizeof(double)) * (size_t)n);
	begin(handle);
	return 0;
}

int MPI_Iallgather(const void *send, int n, void *type, void *receive, int of_each, void *as, void *comm, char **handle) {
	memcpy(receive, send, (size_t)n);
	memset((char *)receive + n, 0, (size_t)of_each);
	begin(handle);
	return 0;
}

int MPI_Ibcast(void *bytes, int n, void *type, int root, void *comm, char **handle) {
	begin(handle);
	return 0;
}

int MPI_Isend(const void *data, int n, void *type, int to, int tag, void *comm, char **handle) {
	said[0] = *(const char *)data; // kind of message
	said[1] = 1;                   // rank, and number of sums begun
	said[5] = getenv("MPI_BEHIND") == NULL ? (char)sums : 0;
	news = true;
	*handle = sending;
	return 0;
}

int MPI_Irecv(void *data, int n, void *type, int from, int tag, void *comm, char **handle) {
	hearing = data;
	*handle = receiving;
	return 0;
}

int MPI_Iprobe(int source, int tag, char *comm, int *found, void *status) {
	*found = 0;
	return 0;
}

int MPI_Test(char **handle, int *done, void *status) {
	*done = true;
	if (*handle == sum) {
		*done = ++tests >= SUM_TESTS && !hangs("MPI_Iallreduce");
	} else if (*handle == receiving) {
		*done = news;
		if (news) {
			memcpy(hearing, said, sizeof said);
			news = false;
		}
	}
	return 0;
}

int MPI_Error_string(int code, char *text, int *length) {
	text[*length = 0] = '\0';
	return 0;
}

int MPI_Finalize(void) {
	hang("MPI_Finalize");
	return 0;
}
