package ggml

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goggml/ggml/internal/testhook"
)

func init() { testhook.FaultIn = faultIn }

// faultIn has the system back memory that is about to be filled from a socket, by a call in place of a page fault for
// each 4 KiB of it in the midst of reading. Not by huge pages: those that a virtual machine has given back to its host
// come at a twentieth of the speed of others. Where it fails there are faults, as without it.
func faultIn(p []byte) {
	const least = 256 << 10 // of less it is not worth the calls
	if len(p) < least {
		return
	}
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	from, to := (begin+page-1)/page*page, (begin+uintptr(len(p)))/page*page
	pages := p[from-begin : to-begin]
	_ = unix.Madvise(pages, unix.MADV_NOHUGEPAGE)
	_ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
}
