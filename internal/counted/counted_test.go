package counted_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/counted"
)

func TestCounted(t *testing.T) {
	for want, got := range map[string]string{
		"0 steps": counted.Of(0, "step"), "1 step": counted.Of(1, "step"), "12 steps": counted.Of(int64(12), "step"), "-1 steps": counted.Of(-1, "step"),
		"1 matrix": counted.Of(1, "matrix"), "7 matrices": counted.Of(7, "matrix"), "2 entries": counted.Of(uint64(2), "entry"), "3 keys": counted.Of(3, "key"),
		"1 byte is": counted.Are(1, "byte"), "2 bytes are": counted.Are(2, "byte"),
	} {
		require.Equal(t, want, got)
	}
}
