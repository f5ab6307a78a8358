package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

// With repacked matrices experts are read, where there is memory for the file, and nothing else is.
func TestResidentExperts(t *testing.T) {
	plain := llmtest.ArchModel(t, "qwen3moe", ggml.Q8_0)
	defer func() { testhook.HostMemory = 0 }()
	for _, c := range []struct {
		available int64
		repack    bool
		resident  bool
	}{{1 << 40, true, true}, {1 << 10, true, false}, {1 << 40, false, false}} {
		testhook.HostMemory = c.available
		var last, total int64
		m := need.Value(model.Load(plain.Path, model.LoadOptions{Repack: c.repack, Progress: func(done, all int64) {
			require.Greater(t, done, last)
			last, total = done, all
		}}))(t)
		defer m.Close()
		require.Equal(t, total, last)
		var size int64
		for w := range m.Weights() {
			isExpert := m.Architecture().Weight(w.Name()).Role == arch.ExpertMatrices
			require.Equal(t, isExpert && c.resident, w.BufferType().Name() != plain.Weight(w.Name()).BufferType().Name(), w.Name())
			want := need.Value(plain.Weight(w.Name()).Float32s())(t)
			got := need.Value(w.Float32s())(t)
			require.Equal(t, want, got)
			size += w.NumBytes()
		}
		require.Equal(t, size, total)
	}
}
