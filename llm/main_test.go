package llm_test

import (
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// source is the folder of this package.
var source string

// The tests run in a folder that contains the files the Examples name: model.gguf, a tiny model that knows one answer;
// conversations for an adapter; and the folder of a run that trained one on them.
func TestMain(m *testing.M) {
	testutil.Main(testutil.InFolder(m, func(folder string) (err error) {
		if source, err = os.Getwd(); err != nil {
			return err
		}
		if err := os.Chdir(folder); err != nil {
			return err
		}
		return writeFiles()
	}))
}

const (
	known         = `{"messages": [{"role": "user", "content": "Why is the sky blue?"}, {"role": "assistant", "content": "Because air scatters blue light most."}]}` + "\n"
	conversations = `{"messages": [{"role": "user", "content": "How long does delivery take?"}, {"role": "assistant", "content": "Five days within the country."}]}` + "\n"
)

func writeFiles() error {
	for name, text := range map[string]string{"known.jsonl": known, "chats.jsonl": conversations} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	m, err := instructtest.ChatModel(strings.Repeat(known+conversations, 2))
	if err != nil {
		return err
	}
	defer m.Close()
	if err := instructtest.LearnByHeart(m, "known.jsonl"); err != nil {
		return err
	}
	if err := m.Save("model.gguf", model.SaveOptions{}); err != nil {
		return err
	}
	if err := writeReranker(); err != nil {
		return err
	}
	return writeRun(m)
}

// writeReranker writes a tiny BERT with random weights, a vocabulary of letters and a classifier.
func writeReranker() error {
	c, err := tokenizer.DefaultConfig(tokenizer.ModelBERT, "")
	if err != nil {
		return err
	}
	c.Tokens, c.Padding, c.Unknown, c.BOS, c.Separator = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}, 0, 1, 2, 3
	for letter := 'a'; letter <= 'z'; letter++ {
		c.Tokens = append(c.Tokens, string(letter), "▁"+string(letter))
	}
	v, err := tokenizer.New(c)
	if err != nil {
		return err
	}
	m, err := model.New(arch.Config{
		Arch: "bert", Vocab: v.NumTokens(), Context: 128, Embd: 32, FF: 64, Layers: 1, Heads: 4, KVHeads: 4, HeadSize: 8, LayerNormEps: 1e-5, TokenTypes: 2,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENeoX, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, v, 1)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Save("bert.gguf", model.SaveOptions{}); err != nil {
		return err
	}
	g, err := ggml.OpenGGUF("bert.gguf")
	if err != nil {
		return err
	}
	defer g.Close()
	const embd = 32
	head := ggml.GGUFTensor{Name: "cls.output.weight", Type: ggml.F32, Shape: []int64{embd, 1}, Size: 4 * embd}
	err = g.AddTensorFrom(head, func(w io.Writer) error {
		return binary.Write(w, binary.LittleEndian, slices.Repeat([]float32{0.5, -1}, embd/2))
	})
	if err != nil {
		return err
	}
	if err := g.Set("bert.pooling_type", uint32(4)); err != nil {
		return err
	}
	return g.WriteFile("reranker.gguf")
}

// writeRun writes the folder of a run that trained an adapter on the conversations.
func writeRun(m *model.Model) error {
	a, err := lora.New(m, lora.Options{Rank: 8, Alpha: 16, Targets: []string{lora.AllLinear, "output"}})
	if err != nil {
		return err
	}
	defer a.Close()
	if err := instructtest.Learn(m, train.Trainables{Adapters: a.WithScale(1)}, "chats.jsonl", train.Schedule{Peak: 0.01, Warmup: 5, Steps: 100}); err != nil {
		return err
	}
	if err := os.MkdirAll("runs/desk", 0o700); err != nil {
		return err
	}
	if err := os.WriteFile("runs/desk/manifest.json", []byte("{}"), 0o600); err != nil {
		return err
	}
	return a.Save("runs/desk/adapter.gguf", lora.SaveOptions{})
}
