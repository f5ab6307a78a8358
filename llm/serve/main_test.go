package serve_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/model"
)

const (
	question = "Why is the sky blue?"
	answer   = "Because air scatters blue light most."
	known    = `{"messages": [{"role": "user", "content": "` + question + `"}, {"role": "assistant", "content": "` + answer + `"}]}` + "\n"
)

var modelPath string

// The tests run with a tiny model in a temporary folder that knows one answer.
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
	if err := instructtest.LearnByHeart(m, data); err != nil {
		return err
	}
	return m.Save(modelPath, model.SaveOptions{})
}
