//go:build linux || darwin

package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the file without reading ahead: rows are visited in random order.
func mapFile(file *os.File, size int64) ([]byte, error) {
	memory, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		_ = unix.Madvise(memory, unix.MADV_RANDOM)
	}
	return memory, err
}

func unmapFile(memory []byte) { _ = unix.Munmap(memory) }

func dropResident(memory []byte) { _ = unix.Madvise(memory, unix.MADV_DONTNEED) }
