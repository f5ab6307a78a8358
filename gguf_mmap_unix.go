//go:build linux || darwin

package ggml

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a range of a file into memory; offset is a multiple of the page size. The mapping is
// private and writable: writing to a weight changes the process's copy of the page, never the file,
// and does not crash. Pages that are only read are shared with other processes and reserve no
// memory.
func mapFile(file *os.File, offset, size int64) ([]byte, error) {
	return unix.Mmap(int(file.Fd()), offset, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_NORESERVE)
}

func unmapFile(memory []byte) { _ = unix.Munmap(memory) }
