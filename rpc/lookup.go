package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rpcwire"
)

// A span is a range of memory in a client's addresses.
type span struct{ from, to uint64 }

func (s span) overlaps(o span) bool { return s.from < o.to && o.from < s.to }

// spanAt returns the memory of the tensor built at an index, which must be allocated.
func (b *builder) spanAt(at int) span {
	data := b.m.Tensors[at].Data
	return span{data, data + uint64(b.built[at].NumBytes())}
}

// A write is the memory that a node of the stage writes.
type write struct {
	at int // the node's index
	span
}

// writesResult checks the memory of a node's result, and records what the node writes.
func (b *builder) writesResult(at int) error {
	said := &b.m.Tensors[at]
	if said.Buffer == 0 {
		return errors.New("its result has no memory")
	}
	result := b.spanAt(at)
	for k, id := range said.Sources {
		if id == 0 || id == said.ID {
			continue
		}
		from := b.index[id]
		p := &b.m.Tensors[from]
		if p.Buffer == 0 || !result.overlaps(b.spanAt(from)) {
			continue
		}
		if r, looksUp := rowIndices[opName(said)]; looksUp && r.ids == k {
			return errors.New("it would overwrite its row numbers")
		}
		if !allowsOverlap(said, p) {
			return fmt.Errorf("its result shares memory with operand %d", k)
		}
	}
	b.writes = append(b.writes, write{at, result})
	for _, id := range changes(said) {
		if from, known := b.index[id]; known && b.m.Tensors[from].Buffer != 0 {
			b.writes = append(b.writes, write{at, b.spanAt(from)})
		}
	}
	return nil
}

// changes lists operands that an op may change beside its result.
func changes(t *rpcwire.Tensor) []uint64 {
	switch {
	case opName(t) == "opt_step_adamw":
		return t.Sources[2:4] // the moments
	case opName(t) == "custom" && t.ViewSource != 0: // as optimizers do
		return t.Sources[:]
	}
	return nil
}

// allowsOverlap reports whether a result may overlap an operand: if it is a view of the operand or
// has the operand's layout, as ggml's allocator places it. Otherwise an op would change data that
// it still has to read, and a sorting op would write out of bounds.
func allowsOverlap(t, p *rpcwire.Tensor) bool {
	if opName(t) == "custom" { // of native ops only the operand that the op changes in place
		return t.ViewSource != 0 && p.ID == t.Sources[0] && t.Data == p.Data && t.Ne == p.Ne && t.Nb == p.Nb
	}
	if t.ViewSource != 0 && (p.ID == t.ViewSource || p.ViewSource == t.ViewSource) {
		return true
	}
	return t.Data == p.Data && t.Type == p.Type && t.Ne == p.Ne && t.Nb == p.Nb
}

// rowIndices lists the ops that select rows by numbers in operand ids: rows of dimension dim of
// operand of, or of the result.
var rowIndices = map[string]struct{ ids, of, dim int }{
	"get_rows":      {ids: 1, of: 0, dim: 1},
	"get_rows_back": {ids: 1, of: ofResult, dim: 1},
	"set_rows":      {ids: 1, of: ofResult, dim: 1},
	"mul_mat_id":    {ids: 2, of: 0, dim: 2},
	"add_id":        {ids: 2, of: 1, dim: 1},
	"ssm_scan":      {ids: 6, of: 0, dim: 3},
}

const ofResult = -1

// A lookup is a set of row numbers in device memory, with the number of rows. The binding checks
// row numbers in system memory when they are used.
type lookup struct {
	buffer *clientBuffer
	offset int64
	layout ggml.Layout
	rows   int64
}

// maxWrites is the maximum number of nodes per stage before a lookup, whose row numbers are
// compared with their results.
const maxWrites = 1 << 14

// lookup ensures that the row numbers of a node are in range when used. If an earlier node of the
// stage may have written them, the stage ends before this node.
func (b *builder) lookup(said *rpcwire.Tensor, name string) (ends bool, err error) {
	r, looksUp := rowIndices[name]
	if !looksUp || said.Sources[r.ids] == 0 {
		return false, nil
	}
	of := said
	if r.of != ofResult {
		at, known := b.index[said.Sources[r.of]]
		if !known {
			return false, nil // an operand is missing; the op refuses it
		}
		of = &b.m.Tensors[at]
	}
	rows, at := int64(of.Ne[r.dim]), b.index[said.Sources[r.ids]]
	ids := &b.m.Tensors[at]
	if ids.Buffer == 0 {
		return false, errors.New("its row numbers have no memory")
	}
	if len(b.writes) > maxWrites {
		return true, nil
	}
	var writers []int
	read := b.spanAt(at)
	for _, w := range b.writes {
		if w.overlaps(read) {
			writers = append(writers, w.at)
		}
	}
	switch {
	case len(writers) == 0:
		buf, offset, err := b.session.find(ids)
		if err == nil && !buf.isHost {
			b.lookups = append(b.lookups, lookup{buf, offset, b.built[at].Layout(), rows})
		}
		return false, err
	case len(writers) == 1 && writers[0] == b.origin(at) && b.countsRows(writers[0], rows):
		return false, nil
	}
	return true, nil
}

// origin returns the index of the tensor whose elements a view shows, through several views.
func (b *builder) origin(at int) int {
	for {
		t := &b.m.Tensors[at]
		source, known := b.index[t.Sources[0]]
		if !isLayoutOp(opName(t)) || !known || b.place[source] >= b.place[at] {
			return at
		}
		at = source
	}
}

// countsRows reports whether the results of an op are row numbers below rows.
func (b *builder) countsRows(at int, rows int64) bool {
	t := &b.m.Tensors[at]
	switch opName(t) {
	case "argmax", "argsort", "top_k":
		return int64(b.m.Tensors[b.index[t.Sources[0]]].Ne[0]) <= rows
	}
	return false
}

// check requires that row numbers, as they are now, are in range.
func (s *session) check(l lookup) error {
	n, err := l.layout.NumBytes()
	if err != nil {
		return err
	}
	if err := s.charge(n); err != nil {
		return err
	}
	defer s.uncharge(n)
	values := make([]byte, n)
	if _, err := l.buffer.b.ReadAt(values, l.offset); err != nil {
		return err
	}
	shape, stride := l.layout.Shape, l.layout.Stride
	for i := range shape[0] * shape[1] * shape[2] * shape[3] {
		at, offset := i, int64(0)
		for d, ne := range shape {
			offset += at % ne * stride[d]
			at /= ne
		}
		id := int64(int32(binary.NativeEndian.Uint32(values[offset:])))
		if l.layout.Type == ggml.I64 {
			id = int64(binary.NativeEndian.Uint64(values[offset:]))
		}
		if id < 0 || id >= l.rows {
			return fmt.Errorf("row index %d is out of range: there are %d rows", id, l.rows)
		}
	}
	return nil
}
