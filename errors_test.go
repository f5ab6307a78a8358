package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestStatus(t *testing.T) {
	texts := map[string]bool{}
	for _, s := range []ggml.Status{ggml.StatusSuccess, ggml.StatusFailed, ggml.StatusCancelled, ggml.StatusOutOfMemory} {
		texts[s.Error()] = true
	}
	require.Len(t, texts, 4)
	require.Contains(t, ggml.StatusFailed.Error(), "failed")
}
