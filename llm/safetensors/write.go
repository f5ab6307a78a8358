package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/filelink"
)

// A Data is a tensor to write.
type Data struct {
	Name   string
	Type   Type    // F32, F16 or BF16
	Shape  []int64 // the last dimension is the fastest
	Values []float32
}

// Encode writes a file with the tensors in the given order. The same arguments give the same bytes. A value that is
// not finite, or too large for F16, is an error.
func Encode(w io.Writer, tensors []Data, metadata map[string]string) error {
	if w == nil {
		return errors.New("the writer is nil")
	}
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, uint64(len(header))); err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.encode(w); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

func encodeHeader(tensors []Data, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	comma := byte('{')
	add := func(key string, value any) error {
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		b.WriteByte(comma)
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
		comma = ','
		return nil
	}
	if len(metadata) > 0 {
		if err := add(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{metadataKey: true}
	offset := int64(0)
	for _, t := range tensors {
		if seen[t.Name] {
			return nil, fmt.Errorf("tensor %q: another tensor has this name", t.Name)
		}
		seen[t.Name] = true
		size, err := t.size()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		shape := append([]int64{}, t.Shape...) // JSON encodes a nil slice as null
		if err := add(t.Name, tensorInfo{&t.Type, &shape, []int64{offset, offset + size}}); err != nil {
			return nil, err
		}
		offset += size
	}
	if comma == '{' {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 { // aligns the data
		b.WriteByte(' ')
	}
	if b.Len() > maxHeader {
		return nil, fmt.Errorf("the header of %d tensors has %d bytes; the limit is %d", len(tensors), b.Len(), maxHeader)
	}
	return b.Bytes(), nil
}

// size validates a tensor and returns its size in bytes.
func (t Data) size() (int64, error) {
	info := Tensor{Type: t.Type, Shape: t.Shape}
	size, ok := info.size()
	if !t.Type.IsSupported() {
		return 0, fmt.Errorf("type %q cannot be written; use F32, F16 or BF16", t.Type)
	}
	if !ok || info.NumElements() != int64(len(t.Values)) {
		return 0, fmt.Errorf("%d values for the shape %v", len(t.Values), t.Shape)
	}
	return size, nil
}

func (t Data) encode(w io.Writer) error {
	if len(t.Values) == 0 {
		return nil
	}
	raw := make([]byte, bits[t.Type]/8*int64(len(t.Values)))
	rowLen := 1
	if n := len(t.Shape); n > 0 {
		rowLen = int(t.Shape[n-1])
	}
	err := ggml.Quantize(raw, ggmlTypes[t.Type], t.Values, ggml.QuantizeOptions{RowLen: rowLen})
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// WriteFile is [Encode] to a file, written beside path and renamed when it is complete. If path is a pipe or a device,
// it writes to it directly.
func WriteFile(path string, tensors []Data, metadata map[string]string) error {
	return filelink.Write(path, func(w io.Writer) error { return Encode(w, tensors, metadata) })
}
