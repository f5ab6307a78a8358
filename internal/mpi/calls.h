// Calls that take handles. This file is included once for each type of handle. The includer defines HANDLE, the
// type; OF(h), a handle of that type; and NAME(f), the name of a function.

static int NAME(place)(int *rank, int *size) {
	int code = ((int (*)(HANDLE, int *))mpi.comm_rank)(OF(mpi.world), rank);
	if (code == 0) {
		code = ((int (*)(HANDLE, int *))mpi.comm_size)(OF(mpi.world), size);
	}
	return code;
}

static int NAME(return_errors)(void) {
	return ((int (*)(HANDLE, HANDLE))mpi.comm_set_errhandler)(OF(mpi.world), OF(mpi.errors_return));
}

static int NAME(sum)(goggml_mpi_handle type, const void *send, void *receive, int n, goggml_mpi_handle *request) {
	return ((int (*)(const void *, void *, int, HANDLE, HANDLE, HANDLE, HANDLE *))mpi.iallreduce)(
		send, receive, n, OF(type), OF(mpi.plus), OF(mpi.world), &OF(*request));
}

static int NAME(gather)(const void *send, void *receive, int n, goggml_mpi_handle *request) {
	return ((int (*)(const void *, int, HANDLE, void *, int, HANDLE, HANDLE, HANDLE *))mpi.iallgather)(
		send, n, OF(mpi.byte), receive, n, OF(mpi.byte), OF(mpi.world), &OF(*request));
}

static int NAME(broadcast)(void *bytes, int n, goggml_mpi_handle *request) {
	return ((int (*)(void *, int, HANDLE, int, HANDLE, HANDLE *))mpi.ibcast)(
		bytes, n, OF(mpi.byte), 0, OF(mpi.world), &OF(*request));
}

static int NAME(send)(const char *bytes, int n, int to, goggml_mpi_handle *request) {
	return ((int (*)(const void *, int, HANDLE, int, int, HANDLE, HANDLE *))mpi.isend)(
		bytes, n, OF(mpi.byte), to, TAG, OF(mpi.world), &OF(*request));
}

static int NAME(receive)(char *bytes, int n, int from, goggml_mpi_handle *request) {
	return ((int (*)(void *, int, HANDLE, int, int, HANDLE, HANDLE *))mpi.irecv)(
		bytes, n, OF(mpi.byte), from, TAG, OF(mpi.world), &OF(*request));
}

static int NAME(progress)(void) {
	int found;
	return ((int (*)(int, int, HANDLE, int *, void *))mpi.iprobe)(0, TAG, OF(mpi.world), &found, mpi.status_ignore);
}

static int NAME(test)(goggml_mpi_handle *request, int *done) {
	return ((int (*)(HANDLE *, int *, void *))mpi.test)(&OF(*request), done, mpi.status_ignore);
}
