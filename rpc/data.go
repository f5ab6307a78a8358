package rpc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// find returns the buffer of a tensor, and the tensor's offset in it. The tensor may extend beyond
// the buffer.
func (s *session) find(t *rpcwire.Tensor) (*clientBuffer, int64, error) {
	b := s.buffers[t.Buffer]
	if b == nil {
		return nil, 0, fmt.Errorf("the client has no buffer %d", t.Buffer)
	}
	if t.Data < b.base || t.Data-b.base > uint64(b.size) {
		return nil, 0, errors.New("it lies outside of its buffer")
	}
	return b, int64(t.Data - b.base), nil
}

// A region is a part of a tensor in a buffer.
type region struct {
	buffer *clientBuffer
	layout ggml.Layout
	start  int64 // offset of the tensor in the buffer
	offset int64 // offset of the part in the tensor
}

// region returns the part of a tensor from an offset on; room is the number of bytes from there to
// the tensor's end.
func (s *session) region(t *rpcwire.Tensor, offset uint64) (r region, room int64, err error) {
	layout, bytes, err := layoutOf(t)
	if err != nil {
		return r, 0, err
	}
	r.layout = layout
	if r.buffer, r.start, err = s.find(t); err != nil {
		return r, 0, err
	}
	switch {
	case bytes > r.buffer.size-r.start:
		return r, 0, errors.New("the tensor reaches beyond its buffer")
	case offset > uint64(bytes):
		return r, 0, fmt.Errorf("offset %d lies beyond the tensor, which has %d bytes", offset, bytes)
	}
	r.offset = int64(offset)
	return r, bytes - r.offset, nil
}

// host calls f with bytes [at, at+n) of the part, in system memory.
func (r *region) host(at, n int64, f func([]byte) error) error {
	return r.buffer.b.WithBytes(func(memory []byte) error { return f(memory[r.start+r.offset+at:][:n]) })
}

// fill sets the first n bytes of the part.
func (r *region) fill(value byte, n int64) error {
	return r.buffer.b.Memset(value, r.start+r.offset, n)
}

// stage returns n bytes of memory, n ≤ chunkBytes, for copies between the client and a device.
func (s *session) stage(n int64) ([]byte, error) {
	if s.staging == nil {
		if err := s.charge(chunkBytes); err != nil {
			return nil, err
		}
		s.staging = make([]byte, chunkBytes)
	}
	return s.staging[:n], nil
}

// receive fills bytes [at, at+n) of the part by read, and passes each chunk to seen, if it is not
// nil.
func (s *session) receive(r *region, at, n int64, read, seen func([]byte) error) error {
	fill := func(room []byte) error {
		if err := read(room); err != nil || seen == nil {
			return err
		}
		return seen(room)
	}
	return eachChunk(at, n, func(at, n int64) error {
		if r.buffer.isHost {
			return r.host(at, n, func(room []byte) error {
				faultIn(room)
				return fill(room)
			})
		}
		room, err := s.stage(n)
		if err == nil {
			err = fill(room)
		}
		if err == nil {
			_, err = r.buffer.b.WriteAt(room, r.start+r.offset+at)
		}
		return err
	})
}

// send sends bytes [at, at+n) of the part to the client.
func (s *session) send(r *region, at, n int64) error {
	return eachChunk(at, n, func(at, n int64) error {
		if r.buffer.isHost {
			return r.host(at, n, s.write)
		}
		room, err := s.stage(n)
		if err == nil {
			_, err = r.buffer.b.ReadAt(room, r.start+r.offset+at)
		}
		if err == nil {
			err = s.write(room)
		}
		return err
	})
}

// eachChunk calls f for [at, at+n), chunkBytes at a time.
func eachChunk(at, n int64, f func(at, n int64) error) error {
	for end := at + n; at < end; at += chunkBytes {
		if err := f(at, min(end-at, chunkBytes)); err != nil {
			return err
		}
	}
	return nil
}

// regionAt reads the tensor and the offset with which a message begins, and returns that part of
// the tensor.
func (s *session) regionAt(message []byte) (r region, room int64, err error) {
	var t rpcwire.Tensor
	t.Decode(message)
	return s.region(&t, binary.LittleEndian.Uint64(message[rpcwire.TensorSize:]))
}

func (s *session) setTensor(size int) error {
	var head [rpcwire.SetTensorSize]byte
	if err := s.read(head[:]); err != nil {
		return err
	}
	var t rpcwire.Tensor
	t.Decode(head[:])
	r, room, err := s.region(&t, binary.LittleEndian.Uint64(head[rpcwire.TensorSize+1:]))
	n := int64(size - len(head))
	if err != nil {
		return err
	}
	if n > room {
		return fmt.Errorf("the message writes %d bytes into a tensor that has room for %d", n, room)
	}
	if s.server.cache == nil || n <= hashThreshold {
		return s.receive(&r, 0, n, s.read, nil)
	}
	entry := s.server.cache.begin(n)
	defer entry.abandon()
	if err := s.receive(&r, 0, n, s.read, entry.write); err != nil {
		return err
	}
	entry.keep()
	return nil
}

// setTensorHash replies 1 if the cache has the data.
func (s *session) setTensorHash(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	if s.server.cache == nil {
		return s.reply([]byte{0})
	}
	found, err := s.loadCached(binary.LittleEndian.Uint64(body[rpcwire.TensorSize+8:]), &r, room)
	if err != nil {
		return err
	}
	if found {
		return s.reply([]byte{1})
	}
	return s.reply([]byte{0})
}

// A rectangle is a rectangle of bytes in a part of a tensor.
type rectangle struct{ width, rows, stride int64 }

// rows reads a rectangle, which must lie in room bytes and not overlap itself.
func (s *session) rows(p []byte, room int64) (r rectangle, err error) {
	width, rows, stride := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:])
	if width == 0 || rows == 0 || rows > 1 && stride < width {
		return r, fmt.Errorf("invalid layout: %d rows of %d bytes at a distance of %d", rows, width, stride)
	}
	over, extent := bits.Mul64(rows-1, stride)
	if over != 0 || width > uint64(room) || extent > uint64(room)-width {
		return r, fmt.Errorf("%d rows of %d bytes at a distance of %d are more than the available %d bytes", rows, width, stride, room)
	}
	return rectangle{int64(width), int64(rows), int64(stride)}, nil
}

func (s *session) setTensor2D(size int) error {
	var head [rpcwire.SetTensor2DSize]byte
	if err := s.read(head[:]); err != nil {
		return err
	}
	r, room, err := s.regionAt(head[:])
	if err != nil {
		return err
	}
	rows, err := s.rows(head[rpcwire.TensorSize+8:], room)
	if err != nil {
		return err
	}
	if n := int64(size - len(head)); n != rows.width*rows.rows {
		return fmt.Errorf("%d bytes do not fill %d rows of %d", n, rows.rows, rows.width)
	}
	for i := range rows.rows {
		if err := s.receive(&r, i*rows.stride, rows.width, s.read, nil); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) getTensor(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(body[rpcwire.TensorSize+8:])
	if n > uint64(room) {
		return fmt.Errorf("%d bytes are more than the available %d", n, room)
	}
	if err := s.write(binary.LittleEndian.AppendUint64(nil, n)); err != nil {
		return err
	}
	return s.send(&r, 0, int64(n))
}

func (s *session) getTensor2D(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	rows, err := s.rows(body[rpcwire.TensorSize+8:], room)
	if err != nil {
		return err
	}
	if err := s.write(binary.LittleEndian.AppendUint64(nil, uint64(rows.width*rows.rows))); err != nil {
		return err
	}
	for i := range rows.rows {
		if err := s.send(&r, i*rows.stride, rows.width); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) memsetTensor(body []byte) error {
	r, room, err := s.regionAt(body)
	if err != nil {
		return err
	}
	n, value := binary.LittleEndian.Uint64(body[rpcwire.TensorSize+8:]), body[rpcwire.TensorSize+16]
	if n > uint64(room) {
		return fmt.Errorf("%d bytes are more than the available %d", n, room)
	}
	return r.fill(value, int64(n))
}

// copyTensor copies between tensors of one layout.
func (s *session) copyTensor(body []byte) error {
	var from, to rpcwire.Tensor
	from.Decode(body)
	to.Decode(body[rpcwire.TensorSize:])
	src, n, err := s.region(&from, 0)
	if err != nil {
		return err
	}
	dst, _, err := s.region(&to, 0)
	if err != nil {
		return err
	}
	if src.layout != dst.layout {
		return errors.New("the tensors have different layouts")
	}
	switch {
	case n == 0:
	case src.buffer.isHost && dst.buffer.isHost:
		err = src.host(0, n, func(from []byte) error {
			return dst.host(0, n, func(to []byte) error {
				copy(to, from)
				return nil
			})
		})
	default:
		err = dst.buffer.b.CopyAt(dst.start, src.buffer.b, src.start, n)
	}
	if err != nil {
		return err
	}
	return s.reply([]byte{1})
}

// initTensor makes a device prepare the memory of a tensor.
func (s *session) initTensor(body []byte) error {
	var t rpcwire.Tensor
	t.Decode(body)
	r, room, err := s.region(&t, 0)
	if err != nil || r.buffer.isHost || room == 0 {
		return err
	}
	c := ggml.NewContext()
	defer c.Close()
	p := c.NewTensorOf(r.layout)
	if err := cmp.Or(c.Err(), r.buffer.b.PlaceAt(p, r.start)); err != nil {
		return fmt.Errorf("the device rejects it: %w", err)
	}
	if p.HasExtra() {
		return errors.New("the device keeps extra data with the tensor, which this server does not support")
	}
	return nil
}

// getAllocSize replies the bytes that a tensor takes on a device, which depends on the operands for
// some ops.
func (s *session) getAllocSize(body []byte) error {
	d, err := s.device(body)
	if err != nil {
		return err
	}
	m := &rpcwire.Graph{Device: uint32(d.index), Tensors: make([]rpcwire.Tensor, 1, 11)}
	m.Tensors[0].Decode(body[4:])
	for i := range 10 {
		var t rpcwire.Tensor
		t.Decode(body[4+(1+i)*rpcwire.TensorSize:])
		again := slices.ContainsFunc(m.Tensors, func(u rpcwire.Tensor) bool { return u.ID == t.ID })
		if t.ID != 0 && !again {
			m.Tensors = append(m.Tensors, t)
		}
	}
	size, err := s.allocSize(d, m)
	if err != nil {
		return err
	}
	return s.replyNumbers(uint64(size))
}
