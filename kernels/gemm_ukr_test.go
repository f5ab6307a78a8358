package kernels_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/kernels"
)

// Micro-kernels are exact for integers of all sizes, the largest among them.
func TestMicroKernels(t *testing.T) {
	found := testhook.MicroKernels()
	if len(found) == 0 {
		require.False(t, kernels.HasIntegers())
		t.Skip("the processor has no instructions for integers")
	}
	for _, k := range found {
		for _, depth := range []int{16, 80, 144, 256} {
			for _, largest := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/bits=%d/depth=%d/largest=%v", k.Instructions, k.Bits, depth, largest), func(t *testing.T) {
					testMicroKernel(t, k, depth, largest)
				})
			}
		}
	}
}

func testMicroKernel(t *testing.T, k testhook.MicroKernel, depth int, largest bool) {
	const rows, columns = 32, 12
	rng := optest.RNG(4)
	draw := func(most int) int {
		if largest {
			return most * (1 - 2*rng.IntN(2))
		}
		return rng.IntN(2*most+1) - most
	}
	mostB, mostA, bias := 127, 127, 128
	if k.Bits == 16 {
		mostB, mostA, bias = 32767, min(32767, (1<<31-1)/32767/depth), 0 // no sum reaches 2³¹
	}
	perStep, mask := 32/k.Bits, 1<<k.Bits-1
	a, b := make([]uint32, depth/perStep*rows), make([]uint32, depth/perStep*columns)
	var first [columns]int32
	want := make([]int64, columns*rows)
	for d := range depth {
		step, shift := d/perStep, d%perStep*k.Bits
		var x [rows]int
		for i := range x {
			x[i] = draw(mostA)
			a[step*rows+i] |= uint32((x[i] + bias) & mask << shift)
		}
		for j := range columns {
			y := draw(mostB)
			first[j] -= int32(bias * y)
			b[step*columns+j] |= uint32(y & mask << shift)
			for i := range x {
				want[j*rows+i] += int64(x[i]) * int64(y)
			}
		}
	}
	got := k.Product(a, b, first)
	for i := range want {
		require.Equal(t, float32(want[i]), got[i], "row %d of column %d", i%rows, i/rows)
	}
}
