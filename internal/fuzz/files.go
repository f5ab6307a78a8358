package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
)

// runFiles reads files that are random, damaged or valid, and uses their contents.
func (p *program) runFiles() error {
	p.open()
	defer p.close()
	p.wildData = true
	data := p.file()
	if p.IntN(4) > 0 {
		data = p.damage(data)
	}
	p.note("a file of %d bytes", len(data))
	if p.IntN(8) == 0 {
		return p.onDisk(data)
	}
	g, err := ggml.ReadGGUF(bytes.NewReader(data), int64(len(data)))
	return p.useFile(g, err)
}

// onDisk reads a file through a mapping, and edits it.
func (p *program) onDisk(data []byte) error {
	folder, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, []string{"x.gguf", "x-00001-of-00002.gguf", "x-00001-of-00001.gguf"}[p.IntN(3)])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	if p.IntN(2) == 0 {
		err := ggml.EditGGUF(path, func(g *ggml.GGUF) error { return g.Set("new", "value") })
		p.note("edit: %v", err)
	}
	g, err := ggml.OpenGGUF(path)
	return p.useFile(g, err)
}

// junk returns fewer than n random bytes.
func (p *program) junk(n int) []byte {
	data := make([]byte, p.IntN(n))
	for i := range data {
		data[i] = byte(p.Uint32())
	}
	return data
}

// file returns a valid file, or random bytes.
func (p *program) file() []byte {
	if p.IntN(8) == 0 {
		data := p.junk(300)
		if p.IntN(2) == 0 {
			data = append([]byte("GGUF\x03\x00\x00\x00"), data...)
		}
		return data
	}
	g := must(ggml.NewGGUF())
	defer g.Close()
	for range p.IntN(6) {
		key := string(rune('a' + p.IntN(26)))
		if err := g.Set(key, p.metadata()); err != nil {
			panic(err)
		}
	}
	for i := range p.IntN(4) {
		ne := p.shape()
		t := p.placed(p.oneOf(allTypes), ne, contiguous)
		t.SetName(fmt.Sprintf("tensor %d", i))
	}
	buffers, err := p.leaves.Allocate(ggml.CPUBufferType())
	if err != nil {
		panic(err)
	}
	defer buffers.Close()
	if err := p.write(); err != nil {
		panic(err)
	}
	for _, l := range p.data {
		if err := g.AddTensor(l.t); err != nil {
			panic(err)
		}
	}
	var file bytes.Buffer
	if _, err := g.WriteTo(&file); err != nil {
		panic(err)
	}
	return file.Bytes()
}

func (p *program) metadata() any {
	return []any{
		uint8(7), int8(-7), uint16(7), int16(-7), uint32(p.Uint32()), int32(-7), float32(0.5), true, "text", uint64(1 << 40), int64(-1), 0.25,
		[]string{"a", "", "long text"}, []float32{1, 2}, []int32{1, -1}, []bool{true, false}, []uint8{}, []uint64{1},
	}[p.IntN(18)]
}

// damage changes bytes, or cuts, doubles or moves parts.
func (p *program) damage(data []byte) []byte {
	for range 1 + p.IntN(4) {
		if len(data) < 9 {
			return data
		}
		i := p.IntN(len(data) - 8)
		if p.IntN(2) == 0 { // the header has the structure
			i = p.IntN(min(len(data)-8, 200))
		}
		switch p.IntN(7) {
		case 0:
			data[i] ^= 1 << p.IntN(8)
		case 1:
			data[i] = byte(p.Uint32())
		case 2:
			binary.LittleEndian.PutUint32(data[i:], uint32(hugeInts[p.IntN(len(hugeInts))]))
		case 3:
			binary.LittleEndian.PutUint64(data[i:], uint64(hugeInts[p.IntN(len(hugeInts))]))
		case 4:
			data = data[:i]
		case 5:
			j := p.IntN(len(data))
			data = append(data[:j:j], append(bytes.Clone(data[i:]), data[j:]...)...)
			data = data[:min(len(data), 1<<20)]
		case 6:
			binary.LittleEndian.PutUint32(data[i:], uint32(wildInts[p.IntN(len(wildInts))]))
		}
	}
	return data
}

// useFile reads all of a file, and computes with its tensors.
func (p *program) useFile(g *ggml.GGUF, err error) error {
	if err != nil {
		p.note("refused: %v", err)
		p.machine.Stats.failed(errors.New("a file is refused"))
		return nil
	}
	defer g.Close()
	for key, value := range g.Keys() {
		if _, ok := g.Value(key); !ok {
			return fmt.Errorf("key %q with value %v is not found", key, value)
		}
		g.KeyType(key)
		if _, err := ggml.GGUFValue[uint32](g, key); err == nil {
			continue
		}
	}
	for t := range g.Tensors() {
		data, err := g.TensorData(t.Name)
		if err != nil {
			p.note("data: %v", err)
			continue
		}
		if _, err := io.Copy(io.Discard, data); err != nil {
			p.note("data: %v", err)
		}
	}
	if _, err := g.WriteTo(io.Discard); err != nil {
		p.note("write: %v", err)
	}
	c := ggml.NewContext()
	defer c.Close()
	buffers, err := g.Load(c, p.machine.backends[0].Device(), ggml.LoadOptions{NoMmap: p.IntN(2) == 0})
	if err != nil {
		p.note("load: %v", err)
		return nil
	}
	defer buffers.Close()
	return p.useTensors(c)
}

// useTensors computes with tensors of a file, whose data may be anything.
func (p *program) useTensors(file *ggml.Context) error {
	c := ggml.NewContext()
	defer c.Close()
	var results []*ggml.Tensor
	for t := range file.Tensors() {
		trial := ggml.NewContext()
		trial.Cast(t, ggml.F32)
		if trial.Err() == nil && t.NumBytes() < maxBytes {
			results = append(results, c.Cast(t, ggml.F32))
		}
		trial.Close()
	}
	if len(results) == 0 {
		return nil
	}
	g := c.NewGraph(results...)
	if err := p.machine.alloc.Allocate(g); err != nil {
		return p.harmless(err)
	}
	return p.harmless(p.run(p.machine.backends[1].Compute, g))
}
