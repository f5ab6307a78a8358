//go:build unix

package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// No factor after the last one is read: the memory behind it ends the process on access. ggml's
// code reads one for each pair of the head.
func TestRoPEFactorsEnd(t *testing.T) {
	page := unix.Getpagesize()
	memory := need.Value(unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	defer unix.Munmap(memory)
	require.NoError(t, unix.Mprotect(memory[page:], unix.PROT_NONE))
	buffer := need.Value(ggml.NewBufferFrom(memory[:page]))(t)
	defer buffer.Close()
	for _, mode := range []ggml.RoPEMode{ggml.RoPENorm, ggml.RoPENeoX, ggml.RoPEMulti, ggml.RoPEInterleaved, ggml.RoPEVision} {
		for _, n := range []int64{8, 64} { // for the rotated pairs, and for all of the head
			w := optest.NewWorkbench(t)
			factors := w.NewTensor(ggml.F32, n)
			require.NoError(t, buffer.PlaceAt(factors, int64(page)-4*n))
			require.NoError(t, factors.Fill(2))
			r := ggml.RoPE{Dims: 16, Mode: mode, FreqBase: 1000, FreqScale: 1, AttnFactor: 1}
			head, positions := int64(128), 3
			if mode >= ggml.RoPEMulti {
				positions, r.Sections = 12, [4]int{4, 4}
			}
			if mode == ggml.RoPEVision {
				head, r.Dims = 2*n, int(n)
			}
			a, pos := w.Leaves.NewTensor(ggml.F32, head, 2, 3), w.Leaves.NewTensor(ggml.I32, int64(positions))
			buffers := need.Value(w.Leaves.Allocate(ggml.CPUBufferType()))(t)
			defer buffers.Close()
			require.NoError(t, a.Fill(1))
			require.NoError(t, pos.FillInt32(2))
			y := w.RoPE(a, pos, factors, r).SetOutput()
			w.Compute(w.NewGraph(y))
			require.NotEqual(t, float32(1), optest.Values(t, y)[0])
		}
	}
}
