package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/plainjson"
)

// metadataKey is the only key of a header that does not name a tensor.
const metadataKey = "__metadata__"

// tensorInfo is a tensor's entry in a header.
type tensorInfo struct {
	Type    *Type    `json:"dtype"`
	Shape   *[]int64 `json:"shape"`
	Offsets []int64  `json:"data_offsets"`
}

// parseHeader returns the tensors in the order of their data, which has dataSize bytes.
func parseHeader(header []byte, dataSize int64) (tensors []Tensor, metadata map[string]string, err error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("is not a safetensors file: its header is not a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(header))
	fault := func(err error) error {
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends early")
		}
		return fmt.Errorf("the header is not valid JSON: %w", err)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, fault(err)
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, nil, fault(err)
		}
		name := token.(string) // the decoder ensures that keys are strings
		if seen[name] {
			return nil, nil, fmt.Errorf("the header has %q twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			if err := d.Decode(&metadata); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", metadataKey, plainjson.Error(err))
			}
			continue
		}
		var info tensorInfo
		if err := d.Decode(&info); err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, plainjson.Error(err))
		}
		t, err := info.tensor(name)
		if err != nil {
			return nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		tensors = append(tensors, t)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, fault(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, nil, errors.New("the header has more than one JSON object")
	}
	slices.SortStableFunc(tensors, func(x, y Tensor) int { return cmp.Or(cmp.Compare(x.begin, y.begin), cmp.Compare(x.end, y.end)) })
	return tensors, metadata, checkOffsets(tensors, dataSize)
}

// tensor validates an entry and converts it.
func (i tensorInfo) tensor(name string) (Tensor, error) {
	if i.Type == nil || i.Shape == nil || len(i.Offsets) != 2 {
		return Tensor{}, errors.New("it must have dtype, shape and two data_offsets")
	}
	t := Tensor{Name: name, Type: *i.Type, Shape: *i.Shape, begin: i.Offsets[0], end: i.Offsets[1]}
	if bits[t.Type] == 0 {
		return Tensor{}, fmt.Errorf("there is no type %q", t.Type)
	}
	size, ok := t.size()
	if !ok {
		return Tensor{}, fmt.Errorf("its shape %v of %s is impossible", t.Shape, t.Type)
	}
	if t.begin < 0 || t.end < t.begin || t.end-t.begin != size {
		return Tensor{}, fmt.Errorf("its shape %v of %s has %d bytes, its offsets are %d and %d", t.Shape, t.Type, size, t.begin, t.end)
	}
	return t, nil
}

// checkOffsets checks that the tensors, in the order of their data, cover it without gaps.
func checkOffsets(tensors []Tensor, dataSize int64) error {
	end := int64(0)
	for _, t := range tensors {
		switch {
		case t.begin < end:
			return fmt.Errorf("tensor %q: its data begins at %d, but overlaps a tensor that ends at %d", t.Name, t.begin, end)
		case t.begin > end:
			return fmt.Errorf("tensor %q: its data begins at %d, but the tensor before it ends at %d", t.Name, t.begin, end)
		case t.end > dataSize:
			return fmt.Errorf("is cut short: the data of tensor %q ends at %d, and %s there", t.Name, t.end, counted.Are(dataSize, "byte"))
		}
		end = t.end
	}
	if end != dataSize {
		return fmt.Errorf("%s left after the data of the last tensor", counted.Are(dataSize-end, "byte"))
	}
	return nil
}
