//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goggml/ggml/llm/model"
)

// TestInteropScore prints, for each of stock's random models or those that GOGGML_INTEROP_MODELS matches, the
// distance of our logits from stock's, or the reason for which we reject it. It never fails.
func TestInteropScore(t *testing.T) {
	only := regexp.MustCompile(os.Getenv("GOGGML_INTEROP_MODELS"))
	dir := os.Getenv("GOGGML_INTEROP_DIR")
	if dir == "" {
		dir = t.TempDir()
		run(t, filepath.Join(stock, "run"), "test-llama-archs", "-o", dir, "-s", seeds()[0])
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.gguf"))
	equal, wrong := 0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".gguf")
		if !only.MatchString(name) {
			continue
		}
		m, err := model.Load(file, model.LoadOptions{})
		if err != nil {
			fmt.Printf("%-22s refused: %v\n", name, strings.TrimPrefix(err.Error(), file+": unsupported model: "))
			continue
		}
		t.Run(name, func(t *testing.T) {
			tokens := make([]int32, 96)
			for i := range tokens {
				tokens[i] = int32((7*i*i + 3*i + 1) % m.Config().Vocab)
			}
			want := stockLogits(t, file, tokens)
			worst, line := 0.0, ""
			for way, got := range ways(t, m, tokens, nil) {
				n := nmse(got, want)
				worst = max(worst, n)
				line += fmt.Sprintf("  %s %.2g", way, n)
			}
			mark := "equal"
			if !(worst <= bound) {
				mark = "WRONG"
				wrong++
			} else {
				equal++
			}
			fmt.Printf("%-22s %s%s\n", name, mark, line)
		})
		m.Close()
	}
	fmt.Printf("%d equal, %d wrong, of %d\n", equal, wrong, len(files))
}
