// Package recordfile has files of keyed records that take long to compute. A process that is killed meanwhile continues
// after the last whole record, and other processes wait for it.
//
// A file has a header and a frame for each record, little-endian:
//
//	header  magic "goggmlrf", version uint32, key of the file [16], CRC-32C of these uint32
//	frame   size of the body uint32, CRC-32C of key and body uint32, key of the record [16], body
package recordfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/filelock"
)

// A Key is the hash that identifies the contents of a file, or the subject of a record.
type Key [16]byte

// Options are the settings of Open.
type Options struct {
	Path string               // of the complete file; "" stands for a temporary file, which Close deletes
	Key  Key                  // of the file
	Warn func(message string) // called if the file is damaged, or another process writes it; may be nil
}

// A File is a complete file, or one that is being filled and locked. It is safe for concurrent use.
type File struct {
	path     string // "" for a temporary file
	file     *os.File
	complete bool

	mu     sync.RWMutex
	places map[Key]place
	end    int64
}

// A place is where the body of a record lies.
type place struct {
	at   int64
	size int
}

const (
	version       = 1
	headerSize    = 8 + 4 + len(Key{}) + 4
	frameSize     = 4 + 4 + len(Key{})
	pendingSuffix = ".pending"
	pollLock      = 100 * time.Millisecond
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func header(key Key) []byte {
	h := append([]byte("goggmlrf"), version, 0, 0, 0)
	h = append(h, key[:]...)
	return binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli))
}

// Open opens the complete file of the path. Otherwise it opens the file that is being filled, with the whole records
// that an earlier process left, once no other process fills it. A damaged file is filled again.
func Open(ctx context.Context, o Options) (*File, error) {
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Path == "" {
		file, err := os.CreateTemp("", "records-*")
		if err != nil {
			return nil, fmt.Errorf("a temporary file is needed: %w; set TMPDIR, or name a folder for caches", err)
		}
		os.Remove(file.Name()) // a killed process then leaves no file, where the system can remove an open one
		return begin(file, o)
	}
	if err := filelink.MkdirAll(filepath.Dir(o.Path), 0o777); err != nil {
		return nil, err
	}
	if f := openComplete(o); f != nil {
		return f, nil
	}
	pending, err := lock(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Warn = func(string) {}            // it was called
	if f := openComplete(o); f != nil { // by the process that had the lock
		return f, filelock.Remove(pending)
	}
	return begin(pending, o)
}

// lock opens the pending file and waits for its lock.
func lock(ctx context.Context, o Options) (*os.File, error) {
	path := o.Path + pendingSuffix
	for tries := 0; ; tries++ {
		file, err := filelock.Create(path)
		if err != filelock.ErrLocked {
			return file, err
		}
		if tries == 1 {
			o.Warn("waiting for another process, which writes " + path)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollLock):
		}
	}
}

// openComplete returns the complete file; nil if it is absent or damaged.
func openComplete(o Options) *File {
	file, _, err := filelink.Open(o.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f *File
	if err == nil {
		f = &File{path: o.Path, file: file, complete: true}
		err = f.read(o.Key)
	}
	if err == nil {
		if info, statErr := file.Stat(); statErr != nil || info.Size() != f.end {
			err = fmt.Errorf("it is damaged after byte %d", f.end)
		}
	}
	if err == nil {
		return f
	}
	file.Close()
	o.Warn(fmt.Sprintf("%s cannot be used: %v; making it again", o.Path, err))
	return nil
}

// begin reads the whole records of a file that is being filled, and cuts off what follows them.
func begin(file *os.File, o Options) (*File, error) {
	f := &File{path: o.Path, file: file}
	err := f.read(o.Key)
	if err != nil { // new, or of another version
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt(header(o.Key), 0)
		}
		f.places, f.end = map[Key]place{}, int64(headerSize)
	}
	if err == nil {
		err = file.Truncate(f.end)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// read reads the places of all whole records, and sets the end of the last one.
func (f *File) read(key Key) error {
	r := io.NewSectionReader(f.file, 0, math.MaxInt64)
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(r, head); err != nil || !bytes.Equal(head, header(key)) {
		return errors.New("its header is damaged")
	}
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	f.places, f.end = map[Key]place{}, int64(headerSize)
	frame := make([]byte, frameSize)
	for {
		if _, err := io.ReadFull(r, frame); err != nil {
			return nil
		}
		size := int64(binary.LittleEndian.Uint32(frame))
		if f.end+int64(frameSize)+size > info.Size() {
			return nil
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil || sum(frame[8:], body) != binary.LittleEndian.Uint32(frame[4:]) {
			return nil
		}
		f.places[Key(frame[8:])] = place{f.end + int64(frameSize), int(size)}
		f.end += int64(frameSize) + size
	}
}

func sum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// Complete reports whether the file is complete; otherwise it can be filled.
func (f *File) Complete() bool { return f.complete }

// Len returns the number of records.
func (f *File) Len() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return len(f.places)
}

// Has reports whether the file has a record.
func (f *File) Has(key Key) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, has := f.places[key]
	return has
}

// Read returns the body of a record; false if the file has none.
func (f *File) Read(key Key) ([]byte, bool, error) {
	f.mu.RLock()
	p, has := f.places[key]
	f.mu.RUnlock()
	if !has {
		return nil, false, nil
	}
	body := make([]byte, p.size)
	_, err := f.file.ReadAt(body, p.at)
	return body, true, err
}

// Append appends a record to a file that is not complete.
func (f *File) Append(key Key, body []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.complete:
		return errors.New("the file is complete")
	case len(body) > math.MaxInt32:
		return fmt.Errorf("a record of %d bytes is too long", len(body))
	}
	raw := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	raw = binary.LittleEndian.AppendUint32(raw, sum(key[:], body))
	raw = append(append(raw, key[:]...), body...)
	if _, err := f.file.WriteAt(raw, f.end); err != nil {
		return errors.Join(filelink.SystemError(err), f.file.Truncate(f.end))
	}
	f.places[key] = place{f.end + int64(frameSize), len(body)}
	f.end += int64(len(raw))
	return nil
}

// Finish gives the file its path.
func (f *File) Finish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.complete || f.path == "" {
		f.complete = true
		return nil
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return err
	}
	f.complete = true
	return nil
}

// Close closes the file. One that is not complete keeps its records for the next Open.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	err := f.file.Close()
	if f.path == "" {
		os.Remove(f.file.Name())
	}
	return err
}
