package main

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

func Example() {
	if err := multiply(context.Background(), os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// [  60   55   50  110]
	// [  90   54   54  126]
	// [  42   29   28   64]
}

func TestNothingStaysOpen(t *testing.T) {
	f := need.Value(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer f.Close()
	require.NoError(t, multiply(t.Context(), f))
	require.Empty(t, ggml.OpenObjects())
}
