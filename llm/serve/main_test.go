package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

const (
	question = "Why is the sky blue?"
	answer   = "Because air scatters blue light most."
	asks     = "Oslo now?"
	calls    = `I ask.<tool_call>{"name": "rain", "arguments": {"in": "Oslo"}}</tool_call><tool_call>{"name": "time", "arguments": {}}</tool_call>`
)

// known are conversations that the model knows by heart.
var known = conversation(question, answer) + conversation(asks, calls)

func conversation(question, answer string) string {
	text, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"role": "user", "content": question}, map[string]any{"role": "assistant", "content": answer}}})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return string(text) + "\n"
}

var modelPath string

// The tests run with a tiny model in a temporary folder that knows two answers.
func TestMain(m *testing.M) {
	testutil.Main(testutil.InFolder(m, func(folder string) error {
		modelPath = filepath.Join(folder, "tiny.gguf")
		return writeModel(filepath.Join(folder, "known.jsonl"))
	}))
}

func writeModel(data string) error {
	if err := os.WriteFile(data, []byte(known), 0o600); err != nil {
		return err
	}
	m, err := instructtest.ChatModel(strings.Repeat(known, 4))
	if err != nil {
		return err
	}
	defer m.Close()
	if err := instructtest.Learn(m, train.Trainables{ModelWeights: slices.Collect(m.Weights())}, data, train.Schedule{Peak: 0.01, Steps: 120}); err != nil {
		return err
	}
	return m.Save(modelPath, model.SaveOptions{})
}
