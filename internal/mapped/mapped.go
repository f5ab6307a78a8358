// Package mapped reads files without using memory of their size: mapped if the system supports it,
// otherwise by ordinary reads.
package mapped

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// A File is a read-only file. It is safe for concurrent use.
type File struct {
	file *os.File
	size int64

	lock    sync.RWMutex // held to read, and to close
	memory  []byte       // nil if the file is read instead
	closed  bool
	touched atomic.Int64 // bytes that may have become resident
}

const (
	// maxResident is the number of resident bytes of a mapping at which they are released. The
	// pages stay in the system's cache.
	maxResident = 8 << 20
	// faultAround is the number of bytes that Linux maps around an accessed page.
	faultAround = 64 << 10
)

// New takes ownership of the file.
func New(file *os.File) (*File, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f := &File{file: file, size: info.Size()}
	if f.size > 0 {
		f.memory, _ = mapFile(file, f.size)
	}
	return f, nil
}

// Size returns the size in bytes of the file when it was opened.
func (f *File) Size() int64 { return f.size }

// ReadAt copies bytes of the file, see [io.ReaderAt]. A read error of the disk is an error for
// mapped files, too.
func (f *File) ReadAt(p []byte, offset int64) (n int, err error) {
	f.lock.RLock()
	defer f.lock.RUnlock()
	switch {
	case f.closed:
		return 0, os.ErrClosed
	case f.memory == nil:
		return f.file.ReadAt(p, offset)
	case offset < 0:
		return 0, fmt.Errorf("offset %d is negative", offset)
	case offset >= f.size:
		return 0, io.EOF
	}
	n, err = copyMapped(p, f.memory[offset:])
	if err != nil {
		return n, fmt.Errorf("%s: %w", f.file.Name(), err)
	}
	f.release(n)
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// copyMapped turns a fault of the mapping, which would end the process, into an error.
func copyMapped(p, from []byte) (n int, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = io.ErrUnexpectedEOF // the file was truncated, or the disk failed
		}
	}()
	return copy(p, from), nil
}

// release releases the mapping's pages once many are resident: otherwise the process would grow by
// the whole file.
func (f *File) release(n int) {
	if f.touched.Add(int64(n)+faultAround) > maxResident {
		f.touched.Store(0)
		dropResident(f.memory)
	}
}

// Close unmaps and closes the file after running reads have ended.
func (f *File) Close() error {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	if f.memory != nil {
		unmapFile(f.memory)
	}
	return f.file.Close()
}
