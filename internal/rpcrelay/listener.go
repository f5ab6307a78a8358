package rpcrelay

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// listening finds the socket of this process that listens on a port of loopback,
// whoever has made it.
func listening(port uint16) (fd int, found bool) {
	open, _ := os.ReadDir("/dev/fd")
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		address, err := unix.Getsockname(fd)
		v4, ok := address.(*unix.SockaddrInet4)
		if err != nil || !ok || v4.Port != int(port) {
			continue
		}
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && n != 0 {
			return fd, true
		}
	}
	return 0, false
}

// Listening reports whether a socket of this process listens on the port.
func Listening(port uint16) bool {
	_, found := listening(port)
	return found
}

// StopListening ends the wait for clients on a port, also of C code, which owns
// the socket and gets an error.
func StopListening(port uint16) error {
	fd, found := listening(port)
	if !found {
		return os.ErrNotExist
	}
	return unix.Shutdown(fd, unix.SHUT_RDWR)
}
