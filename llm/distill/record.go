package distill

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/goggml/ggml/llm/train"
)

// encodeRecord encodes the scores of a sample: the number of its trained tokens; for each of these the k likeliest tokens
// by the teacher, all as varints; then for each the float32 probabilities of the k, and of all others together.
func encodeRecord(t train.Taught) []byte {
	raw := binary.AppendUvarint(nil, uint64(len(t.Probs)-len(t.Tokens)))
	for _, id := range t.Tokens {
		raw = binary.AppendUvarint(raw, uint64(uint32(id)))
	}
	for _, p := range t.Probs {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(p))
	}
	return raw
}

var errDamaged = errors.New("the teacher's scores are damaged")

func decodeRecord(raw []byte, k int) (t train.Taught, err error) {
	next := func() int {
		n, size := binary.Uvarint(raw)
		if size <= 0 || n > math.MaxInt32 {
			err, raw = errDamaged, nil
			return 0
		}
		raw = raw[size:]
		return int(n)
	}
	trained := next()
	if trained > len(raw)/(k+4*(k+1)) { // each takes at least that many bytes
		return t, errDamaged
	}
	t = train.Taught{Tokens: make([]int32, trained*k), Probs: make([]float32, trained*(k+1))}
	for i := range t.Tokens {
		t.Tokens[i] = int32(next())
	}
	if err != nil || len(raw) != 4*len(t.Probs) {
		return train.Taught{}, errDamaged
	}
	for i := range t.Probs {
		t.Probs[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return t, nil
}
