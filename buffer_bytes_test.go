package ggml_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// On every device, the bytes of a buffer are the bytes of its tensors.
func TestBufferBytes(t *testing.T) {
	for _, d := range optest.Devices(t) {
		t.Run(d.Name, func(t *testing.T) {
			b := need.Value(d.BufferType().NewBuffer(4096))(t)
			defer b.Close()
			require.NoError(t, b.Clear(0))
			c := ggml.NewContext()
			defer c.Close()
			x := c.NewTensor(ggml.F32, 4)
			at := b.Alignment()
			require.NoError(t, b.PlaceAt(x, at))
			require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4}))
			want := make([]byte, x.NumBytes())
			_, err := x.ReadAt(want, 0)
			require.NoError(t, err)

			got := need.Value(io.ReadAll(io.NewSectionReader(b, at, x.NumBytes())))(t)
			require.Equal(t, want, got)
			require.NoError(t, b.CopyAt(2*at, b, at, 16))
			require.NoError(t, b.Memset(0xff, at, 4))
			_, err = b.WriteAt(want[:4], at+4)
			require.NoError(t, err)
			got = make([]byte, 16)
			_, err = b.ReadAt(got, at)
			require.NoError(t, err)
			require.Equal(t, append([]byte{0xff, 0xff, 0xff, 0xff}, append(bytes.Clone(want[:4]), want[8:]...)...), got)
			_, err = b.ReadAt(got, 2*at)
			require.NoError(t, err)
			require.Equal(t, want, got)

			err = b.WithBytes(func(memory []byte) error {
				require.Len(t, memory, 4096)
				require.Equal(t, want, memory[2*at:2*at+16])
				return io.ErrUnexpectedEOF
			})
			if b.IsHost() {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				require.ErrorContains(t, err, "is not in system memory; use ReadAt and WriteAt")
			}
		})
	}
}

func TestBufferBytesMisuse(t *testing.T) {
	b := need.Value(ggml.CPUBufferType().NewBuffer(64))(t)
	for _, r := range [][2]int64{{-1, 4}, {64, 1}, {60, 8}, {1 << 62, 4}} {
		_, err := b.ReadAt(make([]byte, r[1]), r[0])
		require.ErrorContains(t, err, "of a buffer reach beyond its 64")
		require.ErrorContains(t, b.CopyAt(0, b, r[0], r[1]), "of a buffer")
	}
	require.ErrorContains(t, b.Memset(0, 0, -1), "of a buffer reach beyond its 64")
	require.ErrorContains(t, b.CopyAt(4, b, 0, 8), "the parts overlap")
	require.ErrorContains(t, b.WithBytes(nil), "the function is nil")
	_, err := b.WriteAt(nil, 64)
	require.NoError(t, err, "there is nothing to write")
	require.NoError(t, b.Close())
	_, err = b.WriteAt([]byte{1}, 0)
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.ErrorIs(t, b.WithBytes(func([]byte) error { return nil }), ggml.ErrClosed)
}
