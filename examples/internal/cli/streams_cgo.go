//go:build cgo && unix

package cli

/*
#include <errno.h>
#include <fcntl.h>

static int closed_at_start;

// Before main, that is before Go's runtime opens the null device for what is closed.
__attribute__((constructor)) static void look_at_standard_streams(void) {
	for (int fd = 0; fd < 3; fd++) {
		if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
			closed_at_start |= 1 << fd;
		}
	}
}

static int is_closed_at_start(int fd) { return closed_at_start >> fd & 1; }
*/
import "C"

// closed reports whether a standard stream was closed when the program was started.
func closed(fd int) bool { return C.is_closed_at_start(C.int(fd)) != 0 }
