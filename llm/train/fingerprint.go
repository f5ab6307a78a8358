package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/limits"
)

// hashBlock is the number of bytes per CRC.
const hashBlock = 1 << 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hashData adds the CRC-32C of each block of r to h. It covers every byte at about the speed of
// memory; SHA-256 of all weights would take seconds per gigabyte.
func hashData(h hash.Hash, r io.Reader) error {
	block := make([]byte, hashBlock)
	for {
		n, err := io.ReadFull(r, block)
		if n > 0 {
			h.Write(binary.LittleEndian.AppendUint32(nil, crc32.Checksum(block[:n], castagnoli)))
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// tensorData returns a reader of a tensor's raw data.
func tensorData(x *ggml.Tensor) *io.SectionReader {
	return io.NewSectionReader(x, 0, x.NumBytes())
}

// hashTensors returns a fingerprint of names, types, shapes and all data.
func hashTensors(list []*ggml.Tensor) (string, error) {
	sums := make([][]byte, len(list))
	var group errgroup.Group
	group.SetLimit(limits.Processors())
	for i, x := range list {
		group.Go(func() error {
			h := sha256.New()
			fmt.Fprintf(h, "%q %v %v\n", x.Name(), x.Type(), x.Shape())
			err := hashData(h, tensorData(x))
			sums[i] = h.Sum(nil)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	h := sha256.New()
	for _, sum := range sums {
		h.Write(sum)
	}
	return short(h), nil
}

func short(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// frozen lists the tensors that the run uses but does not train.
func (t *Trainer) frozen() []*ggml.Tensor {
	var list []*ggml.Tensor
	add := func(x *ggml.Tensor) {
		if _, trained := t.opt.grad[x]; !trained {
			list = append(list, x)
		}
	}
	weights := map[string]*ggml.Tensor{}
	for w := range t.m.Weights() {
		weights[w.Name()] = w
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		add(weights[name])
	}
	for _, base := range slices.Sorted(maps.Keys(t.adapters)) {
		for _, p := range t.adapters[base] {
			add(p.A)
			add(p.B)
		}
	}
	return list
}

// trained lists the parameters and their moments.
func (t *Trainer) trained() []*ggml.Tensor {
	var list []*ggml.Tensor
	parts := t.parts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		list = append(list, parts[name])
	}
	return list
}
