package training

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// Flags are found by the IDs of settings, whatever the settings are called; only flags of the program count.
func TestByFlag(t *testing.T) {
	var program struct {
		Flags
		Rank    int `name:"rank" setting:"tensor *.lora_[ab]"`
		Targets int `name:"matrices" setting:"tensor *.lora_[ab]"`
		Base    int `name:"base" setting:"*.rope.freq_base"`
		Scale   int `name:"scale" setting:"*.rope.scaling.*"`
	}
	parser := cli.New("test", &program, Defaults{Ctx: "1", Batch: "1", GradAcc: "1", Warmup: "1", AdamAlpha: "1"}.Vars())
	differ := func(id string) train.Difference {
		return train.Difference{ID: train.SettingID(id), Setting: "reworded " + id, Was: "1", Is: "2"}
	}
	var got []string
	for _, d := range byFlag([]train.Difference{
		differ("batch"), differ("β₁"), differ("final learning rate"), differ("steps"), differ("compute type"), {ID: "data", Setting: "reworded"},
		differ("llama.rope.freq_base"), differ("llama.rope.scaling.type"), differ("llama.rope.scaling.factor"), differ("llama.rope.dimension_count"), differ("tensor x.lora_a"), differ("tensor x.lora_b"), differ("tensor x"),
		{ID: "--packing", Setting: "--packing", Was: "false", Is: "true"},
	}, parser.Model.Flags) {
		got = append(got, d.String())
	}
	require.Equal(t, []string{
		"--batch was 1, is 2", "--adam-beta1 was 1, is 2", "--adam-min-alpha or --cos-decay-min (reworded final learning rate) was 1, is 2",
		"reworded steps was 1, is 2", "reworded compute type was 1, is 2", "other --train-data",
		"--base was 1, is 2", "--scale (reworded llama.rope.scaling.type) was 1, is 2", "reworded llama.rope.dimension_count was 1, is 2",
		"--matrices or --rank (reworded tensor x.lora_a) was 1, is 2", "reworded tensor x was 1, is 2",
		"--packing was false, is true",
	}, got)
}

// A run from before copies of a row were kept together continues as it started. A new run keeps them together,
// and so does one whose checkpoint is missing.
func TestSplitsByRow(t *testing.T) {
	for name, origin := range map[string]map[string]string{"old": {"--valid-split": "0.2"}, "new": {"--valid-split": "0.2", copies: copiesTogether}} {
		g := need.Value(ggml.NewGGUF())(t)
		for key, value := range origin {
			require.NoError(t, g.Set("training.data."+key, value))
		}
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, g.WriteFile(path))
		require.NoError(t, g.Close())
		require.Equal(t, name == "old", splitsByRow(path), name)
	}
	require.False(t, splitsByRow(filepath.Join(t.TempDir(), "none")))
	require.False(t, splitsByRow(""))
}
