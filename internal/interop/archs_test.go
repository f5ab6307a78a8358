//go:build interop

package interop

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// archs are stock llama.cpp's random models that we support; all others are rejected.
var archs = []string{
	"afmoe-moe", "arcee-dense", "arctic-moe", "baichuan-dense", "bailingmoe-moe", "bailingmoe2-moe", "bailingmoe3-moe", "bloom-dense", "chatglm-dense",
	"codeshell-dense", "cogvlm-dense", "cohere2-dense", "cohere2moe-moe", "command-r-dense", "dbrx-moe", "deci-dense", "deepseek-moe", "deepseek2-moe",
	"deepseek32-moe", "deepseek4-moe", "dots1-moe", "dots3note-moe", "dream-dense", "ernie4_5-moe", "ernie4_5-moe-moe", "exaone-dense", "exaone-moe-moe", "exaone4-dense", "falcon-dense", "falcon-h1-dense", "gemma-dense",
	"gemma2-dense", "gemma3-dense", "glm-dsa-moe", "glm4-dense", "glm4moe-moe", "glm5-next-moe", "gpt-oss-moe", "gpt2-dense", "gptneox-dense", "granite-dense", "granite-moe",
	"granite_swa-dense", "granitehybrid-dense", "granitemoe-dense", "granitemoe-moe", "grok-moe", "grovemoe-moe", "hrm_text-dense", "hunyuan-dense-dense", "hunyuan-moe-moe",
	"hunyuan_vl-dense", "hy_v3-moe", "hy_v4-moe", "internlm2-dense", "jais-dense", "jais2-dense", "jamba-dense", "k2-horizon-dense", "k2-horizon-moe", "kimi-k3-moe", "kimi-linear-moe", "laguna-moe", "lfm2-dense",
	"lfm2moe-moe", "llada-dense", "llada-moe-moe", "llama-dense", "llama-moe", "llama4-moe", "maincoder-dense", "maion-coder-moe", "mamba-dense", "mamba2-dense", "maple-moe",
	"mellum-moe", "mimo2-moe", "minicpm-dense", "minicpm-moe", "minicpm3-dense", "minimax-01-moe", "minimax-m2-moe", "minimax-m3-moe", "mistral3-dense", "mistral3-moe", "mistral4-moe",
	"mpt-dense", "muse-glimmer-dense", "nanbeige-dense", "nemotron-dense", "nemotron_h-dense", "nemotron_h_moe-dense", "olmo-dense", "olmo2-dense", "olmoe-moe", "openelm-dense", "orion-dense",
	"paddleocr-moe", "pangu-embedded-dense", "phi2-dense", "phi3-dense", "phimoe-moe", "plamo-dense", "plamo2-dense", "plamo3-dense", "pockettts-dense", "qwen-dense",
	"qwen2-dense", "qwen2moe-moe", "qwen2vl-dense", "qwen3-dense", "qwen35-dense", "qwen35moe-moe", "qwen3moe-moe", "qwen3next-moe", "qwen3tts-dense", "qwen3vl-dense", "qwen3vlmoe-moe", "qwen4exp-moe", "refact-dense",
	"refact-moe", "rnd1-moe", "seed_oss-dense", "smallthinker-moe", "smollm3-dense", "spark2_5-dense", "stablelm-dense", "starcoder-dense",
	"starcoder2-dense", "talkie-dense", "xverse-dense",
}

// kindOf returns the architecture of a file, whose name ends with -dense or -moe.
func kindOf(name string) string { return name[:strings.LastIndexByte(name, '-')] }

// seeds returns the seeds of stock's random models from GOGGML_INTEROP_SEEDS, such as "3 4 5".
func seeds() []string {
	if list := strings.Fields(os.Getenv("GOGGML_INTEROP_SEEDS")); len(list) > 0 {
		return list
	}
	return []string{"1", "2"}
}

// TestInteropArchitectures compares the logits of stock's random models with stock's.
func TestInteropArchitectures(t *testing.T) {
	var kinds []string
	for _, name := range archs {
		kinds = append(kinds, kindOf(name))
	}
	require.Subset(t, arch.Architectures(), kinds)
	for _, seed := range seeds() {
		dir := t.TempDir()
		run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", seed)
		files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
		require.NoError(t, err)
		require.Greater(t, len(files), 100)
		variants := otherVariants(t, filepath.Join(dir, "llama-dense.gguf"), []int32{1})
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".gguf")
			t.Run(name+" "+seed, func(t *testing.T) {
				t.Parallel()
				if !slices.Contains(archs, name) {
					_, err := model.Load(file, model.LoadOptions{})
					require.ErrorIs(t, err, arch.ErrUnsupported)
					require.ErrorContains(t, err, file)
					return
				}
				testArchitecture(t, file, variants)
			})
		}
	}
}

func testArchitecture(t *testing.T, file string, variants []*cpuVariant) {
	m, err := model.Load(file, model.LoadOptions{})
	require.NoError(t, err)
	defer m.Close()
	tokens := make([]int32, 96)
	for i := range tokens {
		tokens[i] = int32((7*i*i + 3*i + 1) % m.Config().Vocab)
	}
	want := stockLogits(t, file, tokens)
	for way, got := range ways(t, m, tokens, nil) {
		n := nmse(got, want)
		t.Logf("F32 %s: NMSE %.2g", way, n)
		requireEqualToStock(t, "F32 "+way, n, func(v *cpuVariant) float64 { return nmse(v.logits(t, file, tokens), want) }, file)
	}
	if m.Config().Window > 0 && m.Config().Window < 200 {
		beyondWindows(t, m, file)
	}
	if few := fewKeys(m.Architecture()); few != nil {
		chosenKeys(t, file, tokens, few)
	}
	for _, typ := range []string{"Q8_0", "Q4_K"} {
		m, err := model.Load(quantized(t, file, typ, "--pure"), model.LoadOptions{})
		require.NoError(t, err)
		defer m.Close()
		r := measureRounding(t, m, variants, tokens)
		for way, got := range ways(t, m, tokens, nil) {
			t.Logf("%s %s: %s", typ, way, r.compare(got))
			require.True(t, r.allows(got), "%s %s: %s", typ, way, r.compare(got))
		}
		if typ == "Q4_K" { // its weights lose more than that
			require.False(t, r.allows(want), "weights in F32: %s", r.compare(want))
		}
	}
}

// ways returns the logits by each way to compute tokens; if attention is not causal, only all at once.
func ways(t *testing.T, m *model.Model, tokens []int32, adapters model.Adapters) map[string][][]float32 {
	t.Helper()
	list := map[string][][]float32{"in one batch": ourLogits(t, m, tokens, adapters), "as second sequence": asSecond(t, m, tokens, adapters)}
	if m.Architecture().IsCausal() {
		list["token by token"] = stepByStep(t, m, tokens, adapters)
	}
	return list
}

// beyondWindows decodes a text that is longer than the attention windows.
func beyondWindows(t *testing.T, m *model.Model, path string) {
	tokens := make([]int32, 600)
	for i := range tokens {
		tokens[i] = int32((7*i*i + 3*i + 1) % m.Config().Vocab)
	}
	o := infer.SessionOptions{Context: len(tokens), Batch: 32, Threads: 1}
	ring, err := infer.NewSession(m, o)
	require.NoError(t, err)
	defer ring.Close()
	o.FullCache = true
	whole, err := infer.NewSession(m, o)
	require.NoError(t, err)
	defer whole.Close()
	require.Less(t, ring.Memory().Total(), whole.Memory().Total())
	q, err := ring.NewSequence()
	require.NoError(t, err)
	rows, err := q.DecodeAll(context.Background(), tokens[:500])
	require.NoError(t, err)
	for _, token := range tokens[500:] {
		logits, err := q.Decode(context.Background(), []int32{token})
		require.NoError(t, err)
		rows = append(rows, logits)
	}
	want := stockLogits(t, path, tokens)
	n := nmse(rows, want)
	t.Logf("beyond windows: NMSE %.2g", n)
	requireEqualToStock(t, "beyond windows", n, func(v *cpuVariant) float64 { return nmse(v.logits(t, path, tokens), want) }, path)
}

// fewKeys are numbers of keys that indexers choose of 96, or of the compressed keys or blocks of as many tokens; nil without
// indexers.
func fewKeys(a *arch.Architecture) []uint32 {
	for _, l := range a.Layers() {
		part := l[0].Part
		if h, ok := part.(arch.HyperConnected); ok {
			part = h.Part
		}
		switch p := part.(type) {
		case arch.Attention:
			switch {
			case p.Blocks.EachKVHead && a.Config().DenseLayers == 0: // with dense layers stock sees all keys, see scripts/interop/logits.c
				return []uint32{2, 9}
			case p.Blocks.Keys > 0 && !p.Blocks.EachKVHead:
				return []uint32{8, 40}
			}
		case arch.LatentAttention:
			if p.Indexer.Keys > 0 {
				return []uint32{8, 40}
			}
		case arch.CompressedAttention:
			if p.Indexer.Keys > 0 {
				return []uint32{2, 9}
			}
		}
	}
	return nil
}

// chosenKeys lets indexers choose fewer keys than there are tokens, in a model whose layers matter.
func chosenKeys(t *testing.T, random string, tokens []int32, few []uint32) {
	path := filepath.Join(t.TempDir(), "strong.gguf")
	strengthen(t, random, path)
	g, err := ggml.OpenGGUF(path)
	require.NoError(t, err)
	defer g.Close()
	kind, err := ggml.GGUFValue[string](g, "general.architecture")
	require.NoError(t, err)
	for _, keys := range few {
		require.NoError(t, g.Set(kind+".attention.indexer.top_k", keys))
		few := filepath.Join(t.TempDir(), "few.gguf")
		require.NoError(t, g.WriteFile(few))
		m, err := model.Load(few, model.LoadOptions{})
		require.NoError(t, err)
		defer m.Close()
		want := stockLogits(t, few, tokens)
		effect := nmse(stockLogits(t, path, tokens), want)
		require.Greater(t, effect, 1e-6, "the choice matters")
		for way, got := range ways(t, m, tokens, nil) {
			n := nmse(got, want)
			t.Logf("%d chosen keys, F32 %s: NMSE %.2g, of all keys %.2g", keys, way, n, effect)
			require.LessOrEqual(t, n, min(bound, effect/100), "%d chosen keys, F32 %s", keys, way)
		}
	}
}

func stepByStep(t *testing.T, m *model.Model, tokens []int32, adapters model.Adapters) [][]float32 {
	s, err := infer.NewSession(m, infer.SessionOptions{Context: 256, Adapters: adapters, Threads: 1})
	require.NoError(t, err)
	defer s.Close()
	q, err := s.NewSequence()
	require.NoError(t, err)
	var rows [][]float32
	for _, token := range tokens {
		logits, err := q.Decode(context.Background(), []int32{token})
		require.NoError(t, err)
		rows = append(rows, logits)
	}
	return rows
}

// asSecond decodes the tokens beside another sequence.
func asSecond(t *testing.T, m *model.Model, tokens []int32, adapters model.Adapters) [][]float32 {
	s, err := infer.NewSession(m, infer.SessionOptions{Sequences: 2, Context: 256, Adapters: adapters, Threads: 1})
	require.NoError(t, err)
	defer s.Close()
	var sequences [2]*infer.Sequence
	if !m.Architecture().IsCausal() {
		return wholeSecond(t, s, tokens)
	}
	var first []float32
	for i, prompt := range [][]int32{{5, 4, 3}, tokens[:1]} {
		sequences[i], err = s.NewSequence()
		require.NoError(t, err)
		first, err = sequences[i].Decode(context.Background(), prompt)
		require.NoError(t, err)
	}
	rows := [][]float32{first}
	for _, token := range tokens[1:] {
		next := []infer.StepInput{{Sequence: sequences[0], Token: token / 2}, {Sequence: sequences[1], Token: token}}
		require.NoError(t, s.Step(context.Background(), next))
		rows = append(rows, next[1].Logits)
	}
	return rows
}

// wholeSecond decodes the tokens at once, half of them in another sequence.
func wholeSecond(t *testing.T, s *infer.Session, tokens []int32) [][]float32 {
	var rows [][]float32
	for _, part := range [][]int32{tokens[:len(tokens)/2], tokens} {
		q, err := s.NewSequence()
		require.NoError(t, err)
		rows, err = q.DecodeAll(context.Background(), part)
		require.NoError(t, err)
	}
	return rows
}
