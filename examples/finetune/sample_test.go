package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// If conversations are trained, samples are the answers of finetune chat with the run's template and its
// variables.
func TestSampleIsAnAnswer(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, writeChatFiles(t, folder))
	const dated = `{{ mood }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}`
	require.NoError(t, os.WriteFile(filepath.Join(folder, "own.jinja"), []byte(dated), 0o600))
	program := func(args ...string) string {
		c := exec.Command("finetune", args...)
		c.Dir = folder
		out, err := c.Output()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	seen := map[string]bool{}
	for name, template := range map[string][]string{
		"the model's": nil,
		"another":     {"--chat-template", "own.jinja", "--template-var", "mood=calm"},
	} {
		t.Run(name, func(t *testing.T) {
			chat := func(more ...string) string {
				return program(append(append([]string{"chat", "--model", "chat.gguf", "--prompt", "ab", "--n-predict", "9", "--temp", "0.7", "--top-k", "40",
					"--top-p", "0.9", "--min-p", "0", "--seed", "42", "--cache-type", "f32", "--no-repack", "--threads", "1"}, template...), more...)...)
			}
			report := program(append([]string{"--model-base", "chat.gguf", "--train-data", "words.jsonl", "--lora-out", "a.gguf", "--ctx", "48",
				"--adam-iter", "20", "--adam-alpha", "0.05", "--compute-type", "f32", "--threads", "1", "--sample-prompt", "ab", "--sample-predict", "9"}, template...)...)
			want := "\n--- before ---\n> ab\n" + chat() + "\n--- after ---\n> ab\n" + chat("--lora", "a.gguf") + "\nadapter: a.gguf\n"
			require.True(t, strings.HasPrefix(report, want), "%q\n%q", want, report)
			require.False(t, seen[want])
			seen[want] = true
		})
	}
}
