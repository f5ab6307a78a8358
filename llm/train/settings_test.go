package train

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
)

// Existing files contain the IDs of settings, so none may change.
func TestSettingIDs(t *testing.T) {
	path, _ := savedRun(t, tinyLoRAModel(t), 1)
	g := need.Value(ggml.OpenGGUF(path))(t)
	defer g.Close()
	var keys []string
	for key := range g.Keys() {
		if strings.HasPrefix(key, fixedKeys) || strings.HasPrefix(key, freeKeys) {
			keys = append(keys, strings.TrimPrefix(key, "training."))
		}
	}
	require.Equal(t, []string{
		"fixed.general.architecture", "fixed.llama.vocab_size", "fixed.llama.context_length", "fixed.llama.embedding_length",
		"fixed.llama.feed_forward_length", "fixed.llama.block_count", "fixed.llama.attention.head_count", "fixed.llama.attention.head_count_kv",
		"fixed.llama.attention.key_length", "fixed.llama.attention.value_length", "fixed.llama.attention.layer_norm_rms_epsilon",
		"fixed.llama.rope.dimension_count", "fixed.llama.rope.freq_base",
		"fixed.frozen weights", "fixed.data", "fixed.sample length", "fixed.batch", "fixed.gradient accumulation", "fixed.seed",
		"fixed.rows grouped by length", "fixed.adapter scale of blk.0.attn_q.weight", "fixed.adapter scale of blk.1.attn_q.weight",
		"free.steps", "free.learning rate", "free.final learning rate", "free.warm-up", "free.schedule", "free.period of the schedule",
		"free.growth of the period", "free.floor in the last step", "free.restarts", "free.β₁", "free.β₂", "free.ε", "free.weight decay",
		"free.dimensions from which on weights decay", "free.gradient clip", "free.learning rate of B over that of A", "free.patience",
		"free.least improvement of an evaluation", "free.steps between losses that are compared", "free.least change of the loss between them",
		"free.least change of the loss in a step", "free.steps without a new lowest loss", "free.dropout", "free.alpha of NEFTune",
		"free.compute type", "free.gradient checkpointing", "free.weight copies",
	}, keys)
}

// rewordSettings changes the words of all settings.
func rewordSettings(t *testing.T) {
	for i := range settingTable {
		row := &settingTable[i]
		before := row.words
		t.Cleanup(func() { row.words = before })
		row.words = fmt.Sprintf("number %d", i)
		if strings.Contains(string(row.id), "*") {
			row.words += " of *"
		}
	}
}

// Words of settings serve only messages: with other words a run resumes to the same end, byte for
// byte, and differences have the same IDs.
func TestRewordedSettings(t *testing.T) {
	m, folder := tinyLoRAModel(t), t.TempDir()
	half, whole := filepath.Join(folder, "half.gguf"), filepath.Join(folder, "whole.gguf")
	runTo := func(r *loraRun, steps int) {
		for r.Steps() < steps {
			_, err := r.Step(context.Background())
			require.NoError(t, err)
		}
	}
	r := usualRun(t, m)
	runTo(r, 3)
	require.NoError(t, r.SaveCheckpoint(half))
	runTo(r, 6)
	require.NoError(t, r.SaveCheckpoint(whole))

	rewordSettings(t)
	resumed, again := usualRun(t, m), filepath.Join(folder, "again.gguf")
	require.NoError(t, resumed.LoadCheckpoint(half))
	require.Empty(t, resumed.Changes())
	runTo(resumed, 6)
	require.NoError(t, resumed.SaveCheckpoint(again))
	want := need.Value(os.ReadFile(whole))(t)
	got := need.Value(os.ReadFile(again))(t)
	require.True(t, string(want) == string(got), "checkpoints differ")

	o := runOptions()
	o.Schedule.Peak, o.Dropout = 0.02, 0.5
	other := usualRunWith(t, m, o)
	require.NoError(t, other.LoadCheckpoint(half))
	require.Equal(t, []Difference{{"learning rate", "number 11", "0.01", "0.02"}, {"dropout", "number 32", "0", "0.5"}}, other.Changes())

	o.Seed, o.Schedule.Steps = 4, 8
	other = newLoRARun(t, m, data.New(6, randomSamples(8, 6)), o, lora.Options{Rank: 2, Alpha: 8, Targets: []string{"attn_q"}})
	var mismatch *MismatchError
	require.ErrorAs(t, other.LoadCheckpoint(half), &mismatch)
	require.Equal(t, []Difference{
		{"data", "number 1", "", ""}, {"seed", "number 5", "3", "4"},
		{"adapter scale of blk.0.attn_q.weight", "number 7 of blk.0.attn_q.weight", "2", "4"},
		{"adapter scale of blk.1.attn_q.weight", "number 7 of blk.1.attn_q.weight", "2", "4"},
	}, mismatch.Differences)
}

// IDs and words are unique.
func TestSettings(t *testing.T) {
	ids, words := map[SettingID]bool{}, map[string]bool{}
	for _, s := range Settings() {
		require.NotEmpty(t, s.ID)
		require.NotEmpty(t, s.Words)
		require.False(t, ids[s.ID], s.ID)
		require.False(t, words[s.Words], s.Words)
		require.Equal(t, strings.Count(string(s.ID), "*"), strings.Count(s.Words, "*"), s.ID)
		ids[s.ID], words[s.Words] = true, true
	}
}

// A run of an earlier version continues exactly as it began: the rate of its last step is the floor,
// which its checkpoints do not state.
func TestScheduleOfOldRuns(t *testing.T) {
	m, folder := tinyLoRAModel(t), t.TempDir()
	half, whole, again := filepath.Join(folder, "half.gguf"), filepath.Join(folder, "whole.gguf"), filepath.Join(folder, "again.gguf")
	runTo := func(r *loraRun, steps int, path string) {
		for r.Steps() < steps {
			_, err := r.Step(context.Background())
			require.NoError(t, err)
		}
		require.NoError(t, r.SaveCheckpoint(path))
	}
	o := runOptions()
	o.Schedule.AtFloor = true
	old, table := usualRunWith(t, m, o), settingTable
	settingTable = slices.DeleteFunc(slices.Clone(table), func(row settingRow) bool { return row.id == SettingAtFloor })
	runTo(old, 3, half)
	settingTable = table
	runTo(old, 6, whole)
	require.Zero(t, old.History[5].LearningRate)

	o.Schedule.AtFloor = false
	resumed := usualRunWith(t, m, o)
	require.NoError(t, resumed.LoadCheckpoint(half))
	require.Empty(t, resumed.Changes())
	runTo(resumed, 6, again)
	want := need.Value(os.ReadFile(whole))(t)
	got := need.Value(os.ReadFile(again))(t)
	require.True(t, string(want) == string(got), "checkpoints differ")

	fresh := usualRunWith(t, m, o)
	runTo(fresh, 6, again)
	require.Positive(t, fresh.History[5].LearningRate)
	require.NoError(t, resumed.LoadCheckpoint(again))
	require.Positive(t, resumed.LearningRate(6), "a run of this version has its own rule")
}
