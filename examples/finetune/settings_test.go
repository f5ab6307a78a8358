package main

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Each setting that can differ between checkpoints has a flag, and each flag's setting exists.
func TestSettingsHaveFlags(t *testing.T) {
	undecided := map[train.SettingID]string{ // settings that not exactly one flag decides, with the reason
		train.SettingSteps:         "--epochs and the number of samples decide it, or --adam-iter",
		train.SettingAtFloor:       "runs of earlier versions have it, and keep it",
		train.SettingCheckpointing: "the memory decides it where neither --use-checkpointing nor --no-checkpointing is given",
	}
	tagged := map[train.SettingID][]string{} // flags by their setting tags
	for _, f := range newCommandLine(t).parser.Model.Node.DefaultCmd.Flags {
		for id := range strings.SplitSeq(f.Tag.Get("setting"), ",") {
			tagged[train.SettingID(id)] = append(tagged[train.SettingID(id)], f.Name)
		}
	}
	delete(tagged, "")
	for _, s := range train.Settings() {
		if undecided[s.ID] == "" {
			require.NotEmpty(t, tagged[s.ID], "no flag has the setting %q", s.ID)
		} else {
			require.Empty(t, tagged[s.ID], s.ID)
		}
		delete(tagged, s.ID)
		delete(undecided, s.ID)
	}
	require.Empty(t, undecided)
	require.NotEmpty(t, tagged)
	ids := checkpointIDs(t)
	for pattern, flags := range tagged {
		matches := false
		for _, id := range ids {
			is, err := path.Match(string(pattern), id)
			require.NoError(t, err)
			matches = matches || is
		}
		require.True(t, matches, "%q of %v is no setting", pattern, flags)
	}
}

// checkpointIDs returns the IDs in an adapter's checkpoint that the table lacks.
func checkpointIDs(t *testing.T) (ids []string) {
	m, err := model.New(arch.Config{
		Arch: "llama", Vocab: 16, Context: 8, Embd: 8, FF: 8, Layers: 1, Heads: 1, KVHeads: 1, HeadSize: 8, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 8, FreqBase: 10000, FreqScale: 0.5, TrainedCtx: 8, AttnFactor: 1},
	}, nil, 1)
	require.NoError(t, err)
	defer m.Close()
	a, err := lora.New(m, lora.Options{Rank: 2, Alpha: 4})
	require.NoError(t, err)
	defer a.Close()
	d := data.New(4, []data.Sample{{Tokens: []int32{1, 2, 3, 4}}})
	o := train.Options{Schedule: train.Schedule{Peak: 0.01, Steps: 1}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1, Threads: 1}
	trainer, err := train.New(m, train.Trainables{Adapters: a.WithScale(1)}, d, o)
	require.NoError(t, err)
	defer trainer.Close()
	file := filepath.Join(t.TempDir(), "checkpoint.gguf")
	require.NoError(t, trainer.SaveCheckpoint(file))
	g, err := ggml.OpenGGUF(file)
	require.NoError(t, err)
	defer g.Close()
	for key := range g.Keys() {
		ids = append(ids, strings.TrimPrefix(key, "training.fixed."))
	}
	for info := range g.Tensors() {
		ids = append(ids, "tensor "+info.Name)
	}
	return ids
}
