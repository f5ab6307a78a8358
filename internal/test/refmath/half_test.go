package refmath

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

func TestF16KnownValues(t *testing.T) {
	for bits, want := range map[uint16]float32{
		0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x3555: 0.333251953125, 0x7bff: 65504,
		0x0400: 1.0 / (1 << 14), 0x0001: 1.0 / (1 << 24), 0x83ff: -1023.0 / (1 << 24),
		0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		require.Equal(t, want, F16ToFloat32(bits), "%#04x", bits)
		require.Equal(t, bits, Float32ToF16(want), "%v", want)
	}
	for f, want := range map[float32]uint16{
		65519: 0x7bff, 65520: 0x7c00, 1e10: 0x7c00, // rounds down, up, overflows
		1 + 1.0/2048: 0x3c00, 1 + 3.0/2048: 0x3c02, // ties go to even
		1.0 / (1 << 25): 0, 3.0 / (1 << 26): 1, // below half, above half of the smallest
		2047.0 / (1 << 25): 0x0400, // rounds up out of the subnormals
	} {
		require.Equal(t, want, Float32ToF16(f), "%v", f)
	}
	require.Equal(t, uint16(0x7e00), Float32ToF16(float32(math.NaN())))
	require.Equal(t, uint16(0x8000), Float32ToF16(float32(math.Copysign(0, -1))))
}

func TestHalvesRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		if f := F16ToFloat32(h); f == f {
			require.Equal(t, h, Float32ToF16(f))
		}
		if f := BF16ToFloat32(h); f == f {
			require.Equal(t, h, Float32ToBF16(f))
		}
	}
}

// The rounded value is no farther away than its neighbours, and even on a tie.
func TestHalvesRoundToNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := float32(rapid.Float64Range(-60000, 60000).Draw(t, "f") * math.Exp2(-float64(rapid.IntRange(0, 40).Draw(t, "e"))))
		requireNearest(t, f, Float32ToF16(f), F16ToFloat32)
		requireNearest(t, f, Float32ToBF16(f), BF16ToFloat32)
	})
}

func requireNearest(t *rapid.T, f float32, bits uint16, value func(uint16) float32) {
	distance := func(b uint16) float64 { return math.Abs(float64(value(b)) - float64(f)) }
	d := distance(bits)
	for _, n := range []uint16{bits - 1, bits + 1} {
		if n^bits&0x8000 != 0 && n&0x8000 != bits&0x8000 {
			continue // the other sign is not a neighbour
		}
		other := distance(n)
		require.True(t, d < other || d == other && bits%2 == 0 || math.IsNaN(other), "%v → %#04x", f, bits)
	}
}

func TestRoundTensors(t *testing.T) {
	a := From([]float64{1.0 / 3})
	require.Equal(t, 0.333251953125, RoundF16(a).Data[0])
	require.Equal(t, 0.333984375, RoundBF16(a).Data[0])
}

// testdata/blocks.txt holds blocks that ggml itself wrote and read back.
func TestDequantizeAgainstGgml(t *testing.T) {
	f := need.Value(os.Open("testdata/blocks.txt"))(t)
	defer f.Close()
	seen := map[Format]bool{F32: true}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Fields(lines.Text())
		require.Len(t, fields, 3)
		number := need.Value(strconv.Atoi(fields[0]))(t)
		format := Format(number)
		block := need.Value(hex.DecodeString(fields[1]))(t)
		want := need.Value(hex.DecodeString(fields[2]))(t)
		got := need.Value(Dequantize(format, block))(t)
		require.Len(t, want, 4*len(got))
		for i, v := range got {
			require.Equal(t, binary.BigEndian.Uint32(want[4*i:]), math.Float32bits(v), "%v value %d", format, i)
		}
		seen[format] = true
	}
	require.NoError(t, lines.Err())
	require.Len(t, seen, len(Formats()), "every format has a block in testdata")
}

func TestDequantizeErrors(t *testing.T) {
	_, err := Dequantize(Format(99), nil)
	require.EqualError(t, err, "refmath: no dequantisation for Format(99); the known formats are listed by Formats")
	_, err = Dequantize(Q4_0, make([]byte, 17))
	require.EqualError(t, err, "refmath: 17 bytes of Q4_0, want a multiple of 18")
	_, err = DequantizeTensor(F16, make([]byte, 8), 3)
	require.EqualError(t, err, "refmath: 4 values for shape [3]")
	w := need.Value(DequantizeTensor(F32, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}, 1, 2))(t)
	near(t, w, []float64{1, 2}, 1, 2)
	values, size := Q6_K.Block()
	require.Equal(t, []int{256, 210}, []int{values, size})
}
