package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"
)

// LoadOptions are the settings of [GGUF.Load].
type LoadOptions struct {
	// Filter selects the tensors; nil selects all.
	Filter func(GGUFTensor) bool
	// Shape returns the shape of a tensor in the context: as many rows as in the file, of the same length. nil keeps the file's shapes.
	Shape func(GGUFTensor) []int64
	// BufferType is the memory to load into; nil means the device's own. Tensors are memory-mapped
	// only if it is nil.
	BufferType *BufferType
	// NoMmap reads the file into memory even if it could be mapped. Use it for a file on a slow
	// network, or one that may change.
	NoMmap bool
	// Progress, if not nil, is called as bytes of tensors are read. A mapped file counts at once.
	Progress func(done, total int64)
}

// Load makes the file's tensors in a context, with their names in the file, and loads their data on
// a device. Close the result when the tensors are no longer needed; the GGUF itself may be closed
// at once.
//
// A device that computes on the program's memory, like the CPU, gets the file memory-mapped: pages
// are read on first use and shared between processes. Such a tensor may be written; the change
// stays in this process. The file must not be changed in place or truncated while it is mapped (the
// system would kill the process); replacing it by a rename is safe.
//
// Otherwise the file is read in chunks into memory of the device. Either way the memory is marked
// [UsageWeights]. After an error the context may hold tensors without data: close it.
//
// C: ggml_backend_dev_buffer_from_host_ptr, ggml_backend_tensor_alloc, ggml_backend_tensor_set.
func (g *GGUF) Load(c *Context, d *Device, o LoadOptions) (*Buffers, error) {
	g = made(g)
	if err := g.h.acquire(); err != nil {
		return nil, err
	}
	defer g.h.release()
	switch {
	case c == nil:
		return nil, &FileError{Path: g.name, Reason: "cannot be loaded: there is no context"}
	case d == nil:
		return nil, &FileError{Path: g.name, Reason: "cannot be loaded: there is no device"}
	case d.isZero() || o.BufferType != nil && o.BufferType.isZero():
		return nil, zeroError()
	}
	l := &ggufLoader{g: g, device: d, LoadOptions: o}
	err := l.makeTensors(c)
	if err != nil {
		return nil, err
	}
	var undo cleanup
	defer undo.run() // also if Progress panics
	undo.add(func() { l.made.Close() })
	buffers, err := l.load()
	if err != nil {
		return nil, fileError(g.name, "cannot be loaded", err)
	}
	undo.keep()
	return buffers, nil
}

// A ggufLoader is the state of one call of Load.
type ggufLoader struct {
	LoadOptions
	g       *GGUF
	device  *Device
	infos   []GGUFTensor
	places  []ggufData
	tensors []*Tensor
	total   int64
	done    int64
	made    *Buffers
}

func (l *ggufLoader) makeTensors(c *Context) error {
	list, err := l.g.tensorList()
	if err != nil {
		return err
	}
	for _, info := range list {
		if l.Filter != nil && !l.Filter(info) {
			continue
		}
		place, err := l.g.place(info.Name)
		if err != nil {
			return err
		}
		l.infos = append(l.infos, info)
		l.places = append(l.places, place)
		shape := info.Shape
		if l.Shape != nil {
			if shape = l.Shape(info); !sameRows(shape, info.Shape) {
				return &FileError{Path: l.g.name, Reason: fmt.Sprintf("tensor %q is %v, which cannot be reshaped to %v: rows must be as many and as long", info.Name, info.Shape, shape)}
			}
		}
		l.tensors = append(l.tensors, c.NewTensor(info.Type, shape...).SetName(info.Name))
		l.total += info.Size
	}
	return c.Err()
}

// sameRows reports whether two shapes have as many rows of equal length.
func sameRows(a, b []int64) bool {
	rows := func(shape []int64) (n int64) {
		n = 1
		for _, d := range shape[min(1, len(shape)):] {
			n *= d
		}
		return n
	}
	return len(a) > 0 && len(b) > 0 && a[0] == b[0] && rows(a) == rows(b)
}

// place returns the file range of a tensor's data.
func (g *GGUF) place(name string) (ggufData, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	data, ok := g.data[name]
	switch {
	case !ok:
		return data, &FileError{Path: g.name, Reason: fmt.Sprintf("has no tensor %q", name)}
	case data.part == nil:
		return data, &FileError{Path: g.name, Reason: fmt.Sprintf("tensor %q was added and is not in the file yet; write the file and open it", name)}
	}
	return data, nil
}

func (l *ggufLoader) progress(n int64) {
	l.done += n
	if l.Progress != nil {
		l.Progress(l.done, l.total)
	}
}

func (l *ggufLoader) load() (*Buffers, error) {
	if len(l.tensors) == 0 {
		return &Buffers{}, nil
	}
	if b, err := l.mapped(); b != nil || err != nil {
		return b, err
	}
	return l.read()
}

// A span is the range of a file that contains tensors to load.
type span struct {
	file        *os.File
	first, last int64
	largest     int64
	tensors     []int
}

// spans returns the span of each file; false if one cannot be mapped.
func (l *ggufLoader) spans() ([]*span, bool) {
	if l.NoMmap || l.BufferType != nil || !l.device.Properties().BufferFromHost {
		return nil, false
	}
	alignment := l.device.BufferType().Alignment()
	byPart := map[*ggufPart]*span{}
	var list []*span
	for i, place := range l.places {
		file, ok := place.part.reader.(*os.File)
		if !ok || place.offset%alignment != 0 {
			return nil, false
		}
		s := byPart[place.part]
		if s == nil {
			s = &span{file: file, first: place.offset}
			byPart[place.part], list = s, append(list, s)
		}
		size := l.infos[i].Size
		s.first, s.last, s.largest = min(s.first, place.offset), max(s.last, place.offset+size), max(s.largest, size)
		s.tensors = append(s.tensors, i)
	}
	return list, true
}

// mapped maps the pages that contain the tensors. It returns nil if mapping is not possible; the
// files must then be read.
func (l *ggufLoader) mapped() (*Buffers, error) {
	spans, ok := l.spans()
	if !ok {
		return nil, nil
	}
	all := &Buffers{}
	l.made = all
	for _, s := range spans {
		b, err := l.mapSpan(s)
		if b == nil {
			all.Close()
			return nil, err
		}
		all.list = append(all.list, b)
		if err != nil {
			return all, err
		}
	}
	all.SetUsage(UsageWeights)
	l.progress(l.total)
	return all, nil
}

func (l *ggufLoader) mapSpan(s *span) (*Buffer, error) {
	// Reading beyond the end of a mapped file would kill the process.
	if info, err := s.file.Stat(); err == nil && info.Size() < s.last {
		reason := fmt.Sprintf("has %d bytes, and its tensors end at %d: download it again", info.Size(), s.last)
		return nil, &FileError{Path: s.file.Name(), Reason: reason, Err: io.ErrUnexpectedEOF}
	}
	s.first -= s.first % int64(os.Getpagesize())
	memory, err := mapFile(s.file, s.first, s.last-s.first)
	if err != nil {
		return nil, nil // some file systems do not support it
	}
	r := C.goggml_buffer_from_host_ptr(l.device.d, unsafe.Pointer(&memory[0]), C.size_t(len(memory)), C.size_t(s.largest))
	if r.value == nil {
		unmapFile(memory)
		return nil, guardError(r.error)
	}
	b, err := newBuffer(C.ggml_backend_buffer_t(r.value), func() { unmapFile(memory) })
	if err != nil {
		return nil, err
	}
	for _, i := range s.tensors {
		if err := b.PlaceAt(l.tensors[i], l.places[i].offset-s.first); err != nil {
			return b, err
		}
	}
	return b, nil
}

// read allocates memory and reads the tensors into it.
func (l *ggufLoader) read() (*Buffers, error) {
	bt := l.BufferType
	if bt == nil {
		bt = l.device.BufferType()
	}
	all, err := allocateTensors(l.tensors, bt)
	if err != nil {
		return nil, err
	}
	l.made = all
	all.SetUsage(UsageWeights) // ggml's RPC client looks up weights on the server by hash
	var most int64
	for i := range l.tensors {
		most = max(most, l.chunkSizeOf(bt, l.infos[i].Size))
	}
	room := make([]byte, most)
	for i, t := range l.tensors {
		if err := l.fill(t, l.infos[i], l.places[i], room[:l.chunkSizeOf(bt, l.infos[i].Size)]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// chunkSizeOf returns the chunk size for writing a tensor: the whole tensor if it is repacked; for a
// server, the smallest size that ggml's client still looks up by hash.
func (l *ggufLoader) chunkSizeOf(bt *BufferType, size int64) int64 {
	const hashed = 10<<20 + 1
	switch {
	case bt.repacks():
		return size
	case l.device.isRPC() && size >= hashed:
		chunks := size / hashed
		return (size + chunks - 1) / chunks
	}
	return min(size, chunkSize)
}

func (l *ggufLoader) fill(t *Tensor, info GGUFTensor, place ggufData, chunk []byte) error {
	for offset := int64(0); offset < info.Size; {
		part := chunk[:min(int64(len(chunk)), info.Size-offset)]
		n, err := place.part.reader.ReadAt(part, place.offset+offset)
		if n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fileError(place.part.name, fmt.Sprintf("cannot be loaded: tensor %q", info.Name), err)
		}
		if err := t.write(part, offset); err != nil {
			return err
		}
		offset += int64(n)
		l.progress(int64(n))
	}
	return nil
}
