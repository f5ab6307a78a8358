package device_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/train"
)

// Measuring a step on a device uses a few layers, and only these are loaded there.
func TestStepTimeOnDevice(t *testing.T) {
	c := llmtest.TinyConfig(false)
	c.Layers = 12
	m := llmtest.TinyModel(t, c, ggml.F32)
	p := train.Plan{
		Layout: layout.On(remote(t)), Model: m, Trained: train.Trainables{Adapters: newAdapter(t, m).WithScale(1)},
		Data: data.New(8, []data.Sample{{Tokens: llmtest.RandomTokens(1, 9, c.Vocab)}}),
		Options: train.Options{
			Schedule: train.Schedule{Peak: 1e-3, Steps: 4}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 3, Checkpointing: train.CheckpointingOn,
		},
	}
	l := need.Value(p.ProbeLayout())(t)
	p.Model = loadOn(t, m, l)
	p.Trained.Adapters = newAdapter(t, p.Model).WithScale(1)
	whole, some := loadOn(t, m, p.Layout).Sizes(), p.Model.Sizes()
	require.Zero(t, whole[1])
	require.Less(t, some[0], whole[0]/2)
	took := need.Value(p.StepTime(t.Context(), time.Hour))(t)
	require.Positive(t, took.Seconds)
	took.Seconds = 0
	require.Equal(t, train.StepTime{Layers: 2, OfLayers: 12, Rows: 2, OfRows: 2}, took)
}
