//go:build interop

package jinja_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/chattest"
)

// TestInteropLanguage checks TestLanguage's expectations against transformers.
func TestInteropLanguage(t *testing.T) {
	var want []sample
	require.NoError(t, json.Unmarshal(chattest.RenderAgain(t, "testdata/language.json"), &want))
	require.Equal(t, want, samples(t))
}
