package rpc

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goggml/ggml/internal/testhook"
)

func init() { testhook.FaultIn = faultIn }

// worthPages is the minimum memory for which system calls about its pages pay off.
const worthPages = 256 << 10

// pagesOf returns the whole pages of memory, and the parts before and after them.
func pagesOf(p []byte) (before, pages, after []byte) {
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(p)))
	from, to := (begin+page-1)/page*page-begin, (begin+uintptr(len(p)))/page*page-begin
	return p[:from], p[from:to], p[to:]
}

// faultIn maps memory that is about to be filled from a socket by one call, instead of a page fault
// per 4 KiB during reading. It avoids huge pages: those that a virtual machine has returned to its
// host come back at a twentieth of the speed. If it fails, page faults occur as usual.
func faultIn(p []byte) {
	if len(p) < worthPages {
		return
	}
	_, pages, _ := pagesOf(p)
	_ = unix.Madvise(pages, unix.MADV_NOHUGEPAGE)
	_ = unix.Madvise(pages, unix.MADV_POPULATE_WRITE)
}

// discard drops the contents of memory, which then reads as zeros and takes no memory until
// written. It reports whether this was done and worthwhile.
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
