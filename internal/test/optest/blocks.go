package optest

import (
	"encoding/binary"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/refmath"
)

// blocks are blocks of a quantised type, and their values.
type blocks struct {
	bytes  []byte
	values []float32
}

var blockPools = map[ggml.Type]blocks{}

// blocksOf returns blocks whose values are around 1; it creates them once.
func blocksOf(t ggml.Type) blocks {
	pool, ok := blockPools[t]
	if ok {
		return pool
	}
	n := 32 * int(t.BlockSize())
	pool = blocks{make([]byte, t.RowSize(int64(n))), make([]float32, n)}
	if slices.Contains(SlowTypes, t) {
		drawBlocks(pool.bytes, t)
	} else if err := ggml.Quantize(pool.bytes, t, Normal(uint64(t), n), ggml.QuantizeOptions{Importance: Ones(n)}); err != nil {
		panic(err)
	}
	if err := ggml.Dequantize(pool.values, t, pool.bytes); err != nil {
		panic(err)
	}
	blockPools[t] = pool
	return pool
}

// drawBlocks draws all bits except the scale's: in [SlowTypes] every bit pattern is a valid block, so nothing
// has to be quantised.
func drawBlocks(data []byte, t ggml.Type) {
	rng := RNG(uint64(t))
	for i := range data {
		data[i] = byte(rng.IntN(256))
	}
	for block := range slices.Chunk(data, int(t.BlockBytes())) {
		switch t {
		case ggml.IQ1M: // the last four words start with digits of the scale
			scales := block[len(block)-8:]
			scale := refmath.Float32ToF16(1.0 / 8)
			for i := range 4 {
				word := binary.LittleEndian.Uint16(scales[2*i:])&0xfff | scale>>(4*i)<<12
				binary.LittleEndian.PutUint16(scales[2*i:], word)
			}
		case ggml.IQ1S:
			binary.LittleEndian.PutUint16(block, refmath.Float32ToF16(1.0/8))
		default:
			binary.LittleEndian.PutUint16(block, refmath.Float32ToF16(1.0/64))
		}
	}
}
