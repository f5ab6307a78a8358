package ggml_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// The blocks of scripts/quantvectors, which makes the file of check sums.
const vectorGroups, vectorGroup = 32, 16

func stream(label string, n int) []byte {
	var out []byte
	for i := 0; len(out) < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", label, i))
		out = append(out, sum[:]...)
	}
	return out[:n]
}

// vectorValues returns n values for block k.
func vectorValues(label string, k, n int) []float32 {
	x := make([]float32, n)
	raw := stream(fmt.Sprintf("%s %d", label, k), 2*n)
	for i := range x {
		x[i] = float32(int16(binary.LittleEndian.Uint16(raw[2*i:]))) / (1 << 12)
	}
	first := x[0]
	for i, v := range x {
		switch k % 8 {
		case 0:
			x[i] = 0
		case 1:
			x[i] = first
		case 2:
			x[i] = sign(v)
		case 3:
			x[i] = float32(math.RoundToEven(float64(v)))
		case 4:
			x[i] = v * float32(math.Ldexp(1, -(k%24)))
		}
	}
	return x
}

func sign(x float32) float32 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

func dequantizedBlock(t *testing.T, typ ggml.Type, block []byte) []float32 {
	x := make([]float32, typ.BlockSize())
	require.NoError(t, ggml.Dequantize(x, typ, block))
	return x
}

// littleEndian returns the bytes of values, or none if a value is not finite.
func littleEndian(x []float32) []byte {
	var out bytes.Buffer
	if slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 }) {
		return nil
	}
	_ = binary.Write(&out, binary.LittleEndian, x)
	return out.Bytes()
}

// Dequantising blocks, and quantising to the types that the Python package gguf supports, gives the
// package's values byte for byte.
func TestAgreesWithGGUFQuants(t *testing.T) {
	f := need.Value(os.Open("testdata/gguf-quants.txt"))(t)
	defer f.Close()
	read, written := map[ggml.Type]bool{}, 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if fields[0] == "#" {
			continue
		}
		typ := need.Value(ggml.ParseType(fields[1]))(t)
		require.Len(t, fields[2:], vectorGroups)
		label := fields[0] + " " + fields[1]
		block := func(k int) []byte {
			if fields[0] == "quantize" {
				return quantized(t, typ, vectorValues(label, k, int(typ.BlockSize())), int(typ.BlockSize()))
			}
			raw := stream(fmt.Sprintf("%s %d", label, k), int(typ.BlockBytes()))
			return littleEndian(dequantizedBlock(t, typ, raw))
		}
		if fields[0] == "quantize" {
			written++
		} else {
			read[typ] = true
		}
		for g, want := range fields[2:] {
			sum := crc32.NewIEEE()
			for k := range vectorGroup {
				sum.Write(block(g*vectorGroup + k))
			}
			assert.Equal(t, want, fmt.Sprintf("%08x", sum.Sum32()), "%s: blocks %d to %d", label, g*vectorGroup, (g+1)*vectorGroup-1)
		}
	}
	require.GreaterOrEqual(t, written, 8)
	for _, typ := range ggml.Types() {
		known := slices.Contains(refmath.Formats(), refmath.Format(typ)) // see TestDequantizeAgreesWithReference
		require.True(t, !typ.CanDequantize() || known || read[typ], "%v has no second implementation", typ)
	}
}

// publishedError lists the limits of ggml's own test of its quantised types: √Σ(x − y)² / n for the
// n = 4096 values 0.1 + 2·cos(i). The limit is 0.002 for types not listed; ggml's test omits types
// that need importance; see quantizeError for all types.
var publishedError = map[ggml.Type]float64{
	ggml.Q1_0: 0.025, ggml.TQ1_0: 0.01, ggml.TQ2_0: 0.01, ggml.Q2_0: 0.01,
	ggml.Q2_K: 0.0075, ggml.IQ2S: 0.0075, ggml.Q3_K: 0.004, ggml.IQ3S: 0.004, ggml.IQ3XXS: 0.005, ggml.NVFP4: 0.003,
}

func TestPublishedErrors(t *testing.T) {
	const whole = 4096
	for _, typ := range ggml.Types() {
		if !typ.CanQuantize() || typ.NeedsImportance() || typ == ggml.IQ1M {
			continue
		}
		// The root of the mean is √4096 times that, and a part of the values shows it, too.
		n := whole
		if slices.Contains(optest.SlowTypes, typ) {
			if testing.Short() {
				continue
			}
			n = 512
		}
		src, got := make([]float32, n), make([]float32, n)
		for i := range src {
			src[i] = float32(0.1 + 2*math.Cos(float64(i)))
		}
		limit, ok := publishedError[typ]
		if !ok {
			limit = 0.002
		}
		require.NoError(t, ggml.Dequantize(got, typ, quantized(t, typ, src, n)))
		sum := 0.0
		for i := range src {
			d := float64(src[i]) - float64(got[i])
			sum += d * d
		}
		assert.Less(t, math.Sqrt(sum/float64(n)), limit*math.Sqrt(whole), "%v", typ)
	}
}
