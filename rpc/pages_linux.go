package rpc

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goggml/ggml/internal/testhook"
)

func init() { testhook.FaultIn = faultIn }

// worthPages is how much memory there is at least, for calls of the system about its pages to pay.
const worthPages = 256 << 10

// pagesOf are the whole pages of memory, and what is before and after them.
func pagesOf(p []byte) (before, pages, after []byte) {
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	from, to := (begin+page-1)/page*page-begin, (begin+uintptr(len(p)))/page*page-begin
	return p[:from], p[from:to], p[to:]
}

// faultIn has the system back memory that is about to be filled from a socket, by a call in place of a page fault for
// each 4 KiB of it in the midst of reading. Not by huge pages: those that a virtual machine has given back to its host
// come at a twentieth of the speed of others. Where it fails there are faults, as without it.
func faultIn(p []byte) {
	if len(p) < worthPages {
		return
	}
	_, pages, _ := pagesOf(p)
	_ = unix.Madvise(pages, unix.MADV_NOHUGEPAGE)
	_ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
}

// discard has the system forget what is in memory, which is zeros then and takes none until it is written. It reports
// whether that was done, and was worth it.
func discard(p []byte) bool {
	if len(p) < worthPages {
		return false
	}
	before, pages, after := pagesOf(p)
	if unix.Madvise(pages, unix.MADV_DONTNEED) != nil {
		return false
	}
	clear(before)
	clear(after)
	return true
}
