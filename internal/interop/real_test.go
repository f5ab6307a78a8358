//go:build interop

package interop

import (
	"bytes"
	"context"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// realModel returns the file of SmolLM2-135M-Instruct in Q4_1.
func realModel(t *testing.T) string {
	t.Helper()
	c := exec.Command("../../scripts/realmodel")
	var messages bytes.Buffer
	c.Stderr = &messages
	out, err := c.Output()
	if err != nil {
		t.Skipf("there is no real model: %s", messages.String())
	}
	return strings.TrimSpace(string(out))
}

func loadReal(t *testing.T) *model.Model {
	t.Helper()
	m := need.Value(model.Load(realModel(t), model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

const realText = "The committee met on Tuesday to discuss the new library. Its roof leaks, and 40 % of the books are damp; " +
	"the architect, Ms. O'Neill, proposes copper. \"It lasts a century,\" she said, and costs £12,500.\n\n1. Repair\n2. Replace\n"

// Our logits of a real model are as exact as the logits of stock's CPU plugins, and as close to them as they are to
// each other: activations are rounded to 8 bits, and 30 layers amplify the cases in which another order of sums
// rounds differently. With F32 weights the logits are equal.
func TestInteropRealLogits(t *testing.T) {
	m := loadReal(t)
	tokens := m.Tokenizer.Encode(realText, tokenizer.EncodeOptions{AddSpecial: true})
	c := newComparison(t, m, tokens)
	exact := c.stock(t, c.exact, nil)
	rounding := nmse(c.plain, exact)
	for _, v := range otherVariants(t, c.path, tokens) {
		logits := v.logits(t, c.path, tokens)
		apart, error := nmse(logits, c.plain), nmse(logits, exact)
		t.Logf("stock by its plugin %s: NMSE %.2g, for the rounding %.3g", v.name, apart, error)
		c.variants, rounding = max(c.variants, apart), max(rounding, error)
	}
	require.Positive(t, c.variants, "stock has one plugin for this processor, and so no distance from itself")
	for way, e := range c.errors(t, nil, nil) {
		t.Logf("%d tokens, %s: %v", len(tokens), way, e)
		require.LessOrEqual(t, e.rounded, 1.05*rounding, "%s: %v", way, e)
		require.LessOrEqual(t, e.adapted, variantFactor*c.variants, "%s: %v", way, e)
	}
	inF32 := need.Value(model.Load(c.exact, model.LoadOptions{}))(t)
	defer inF32.Close()
	n := nmse(ourLogits(t, inF32, tokens, nil), exact)
	t.Logf("in F32: NMSE %.2g", n)
	require.LessOrEqual(t, n, bound)
}

// A greedy chat with a real model gives the replies of llama-server, with F32 weights: in Q4_1 the two most
// probable tokens may be closer than the rounding errors.
func TestInteropRealText(t *testing.T) { testChat(t, llmtest.Dequantised(t, loadReal(t)).Path) }

// The template of a real model renders conversations as transformers does, and gives the tokens of
// llama-server.
func TestInteropRealChat(t *testing.T) {
	path := realModel(t)
	m := loadReal(t)
	template := need.Value(data.ModelTemplate(path, m.Tokenizer))(t)
	encoder := need.Value(data.NewEncoder(m.Tokenizer, data.EncoderOptions{Template: template, Now: time.Now(), TrainOn: chat.All}))(t)
	// The template does not support tools: such conversations are rejected.
	talks := slices.DeleteFunc(chatConversations(t), func(c chattest.Conversation) bool {
		_, err := encoder.Encode(data.Example{Format: data.Messages, Conversation: c.Conversation})
		if err != nil {
			t.Logf("%s is refused: %v", c.Name, err)
		}
		return err != nil
	})
	server := startServer(t, path, "--no-prefill-assistant", "-c", "64")
	n, same := compareTokens(t, path, server, talks)
	t.Logf("llama-server: %d of %d texts are its own, and their tokens equal", same, n)
	require.Positive(t, same)

	needPEFT(t)
	source := need.Value(ggml.GGUFValue[string](m.GGUF(), "tokenizer.chat_template"))(t)
	equal := 0
	for _, talk := range talks {
		ours := need.Value(encoder.Render(data.Example{Format: data.Messages, Conversation: talk.Conversation}))(t)
		theirs := ask[string](t, "render", arguments{
			"Template": source, "Messages": talk.Source["messages"], "Tools": talk.Source["tools"],
			"Tokens": arguments{"bos_token": m.Tokenizer.TokenText(m.Tokenizer.BOS()), "eos_token": m.Tokenizer.TokenText(m.Tokenizer.EOS())},
		})
		if theirs == "" {
			t.Logf("%s is refused by transformers", talk.Name)
			continue
		}
		require.Equal(t, theirs, ours.Text, talk.Name)
		equal++
	}
	t.Logf("transformers renders the same in %d of %d conversations", equal, len(talks))
	require.Greater(t, equal, len(talks)/2)
}

// A real model trains on conversations as with PEFT: each of 60 losses in F32 is within 1e-3. The adapter has
// the same effect in stock llama.cpp, in PEFT, and merged.
func TestInteropRealTraining(t *testing.T) {
	needPEFT(t)
	quantised := loadReal(t)
	m := llmtest.Dequantised(t, quantised)
	loadTrained(t, m)
	const steps, length, rank = 60, 72, 8
	rows := realSamples(t, m, steps, length)
	folder, out := filepath.Join(t.TempDir(), "adapter"), filepath.Join(t.TempDir(), "trained")
	ask[any](t, "create", arguments{"Adapter": folder, "Seed": 1, "Type": "float32", "Arguments": arguments{
		"r": rank, "lora_alpha": rank, "target_modules": []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"},
		"init_lora_weights": true,
	}})
	a := need.Value(lora.Load(folder, m))(t)
	defer a.Close()
	adam := train.AdamW{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Decay: 0.01, Clip: 1}
	trainer := need.Value(train.New(m, train.Trainables{Adapters: a.WithScale(1)}, rows, train.Options{
		Schedule: train.Schedule{Shape: train.Cosine, Peak: 1e-3, Floor: 1e-4, Steps: steps}, AdamW: adam, Batch: 1, Accumulate: 1,
	}))(t)
	defer trainer.Close()
	var inputs, labels [][][]int32
	order := data.Shuffler{N: rows.Len()}
	for step := range steps {
		in, of := padded(t, rows, 1, func(int) int { return order.At(step) })
		inputs, labels = append(inputs, in), append(labels, of)
	}
	theirs := ask[[]float64](t, "train", arguments{
		"Adapter": folder, "Out": out, "Batches": inputs, "Labels": labels, "Peak": 1e-3, "Floor": 1e-4,
		"Beta1": adam.Beta1, "Beta2": adam.Beta2, "Epsilon": adam.Epsilon, "Decay": adam.Decay, "Clip": adam.Clip,
	})
	worst := 0.0
	for step, loss := range theirs {
		point := need.Value(trainer.Step(context.Background()))(t)
		worst = max(worst, math.Abs(point.Loss-loss))
		require.InDelta(t, loss, point.Loss, 1e-3, "step %d", step+1)
	}
	t.Logf("%d losses from %.4f to %.4f, at most %.2g apart", steps, theirs[0], theirs[steps-1], worst)

	tokens := m.Tokenizer.Encode(realText, tokenizer.EncodeOptions{AddSpecial: true})
	ours, base := ourLogits(t, m, tokens, a.WithScale(1)), ourLogits(t, m, tokens, nil)
	check := func(what string, got [][]float32, most float64) {
		n := nmse(got, ours)
		t.Logf("%s: NMSE %.2g, without the adapter %.2g", what, n, nmse(base, ours))
		require.LessOrEqual(t, n, most, what)
		require.Less(t, n, nmse(base, ours)/100, "%s: the adapter must matter", what)
	}
	check("the adapter that PEFT trained", peftLogits(t, out, tokens), 1e-5)
	file, exported := filepath.Join(t.TempDir(), "adapter.gguf"), filepath.Join(t.TempDir(), "peft")
	require.NoError(t, a.Save(file, lora.SaveOptions{}))
	check("in stock llama.cpp", stockLogits(t, m.Path, tokens, file+"=1"), 1e-7)
	require.NoError(t, a.SavePEFT(exported, lora.PEFTOptions{}))
	check("exported to PEFT", peftLogits(t, exported, tokens), 1e-7)
	merged := filepath.Join(t.TempDir(), "merged.gguf")
	require.NoError(t, lora.MergeTo(context.Background(), merged, m, []lora.Scaled{{Adapter: a, Scale: 1}}, lora.MergeOptions{}))
	check("merged, in stock llama.cpp", stockLogits(t, merged, tokens), 1e-7)
}

// realSamples returns the conversations of the demonstration; their answers are trained.
func realSamples(t *testing.T, m *model.Model, n, length int) *data.Dataset {
	t.Helper()
	template, err := data.ModelTemplate(m.Path, m.Tokenizer)
	require.NoError(t, err)
	encoder := need.Value(data.NewEncoder(m.Tokenizer, data.EncoderOptions{Template: template, Now: time.Now(), TrainOn: chat.Assistant}))(t)
	var samples []data.Sample
	for x, err := range data.Read(context.Background(), []string{"../../scripts/demo/train.jsonl"}, data.ReadOptions{}) {
		require.NoError(t, err)
		s := need.Value(encoder.Encode(x))(t)
		if s.Predicted() <= length {
			samples = append(samples, s)
		}
	}
	require.GreaterOrEqual(t, len(samples), n)
	return data.New(length, samples[:n])
}
