package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

func TestFileTypes(t *testing.T) {
	for f, want := range map[ggml.FileType]ggml.Type{
		ggml.FileTypeF32: ggml.F32, ggml.FileTypeF16: ggml.F16, ggml.FileTypeQ4_0: ggml.Q4_0, ggml.FileTypeIQ4XS: ggml.IQ4XS, ggml.FileTypeQ2_0: ggml.Q2_0,
	} {
		got := need.Value(f.Type())(t)
		require.Equal(t, want, got)
	}
	for _, f := range []ggml.FileType{ggml.FileTypeUnknown, ggml.FileTypeQ4_1SomeF16, 5, 1000, -7} {
		_, err := f.Type()
		require.ErrorContains(t, err, "names no single type")
	}
}
