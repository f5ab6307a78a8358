package device_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/model"
)

// each runs a test for a model of each distinct architecture.
func each(t *testing.T, f func(t *testing.T, m *model.Model)) {
	eachOf(t, llmtest.TestedArchitectures(), f)
}

func eachOf(t *testing.T, names []string, f func(t *testing.T, m *model.Model)) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) { f(t, llmtest.ArchModel(t, name, ggml.F32)) })
	}
}
