package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/need"
)

// The README's commands run unchanged and in order. Downloads and other programs have stand-ins; the model and
// its data are small.
func TestREADMECommands(t *testing.T) {
	text := need.Value(os.ReadFile(filepath.Join(root, "README.md")))(t)
	_, block, found := strings.Cut(string(text), "## Fine-tune\n\n```sh\n")
	require.True(t, found)
	block, _, _ = strings.Cut(block, "```")
	for _, part := range []string{"git clone ", "scripts/realmodel", "go run ./examples/finetune --model-base", "go run ./examples/finetune chat", "llama-cli -m"} {
		require.Contains(t, block, part)
	}

	folder := t.TempDir()
	require.NoError(t, writeChatFiles(t, folder))
	program := func(path, script string) {
		path = filepath.Join(folder, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nset -eu\n"+script+"\n"), 0o700))
	}
	program("bin/git", `[ "$1" = clone ] && mv "$HERE/clone" ggml`)
	program("bin/go", `[ "$1 $2" = "run ./examples/finetune" ] && shift 2 && exec finetune "$@"`)
	program("bin/llama-cli", `[ "$1 $3" = "-m --lora" ] && [ -s "$2" ] && [ -s "$4" ] && echo "stock llama.cpp was started"`)
	program("clone/scripts/vendor", "")
	program("clone/scripts/env", "echo export GOGGML_TEST_ENV=set")
	program("clone/scripts/realmodel", `echo "$HERE/chat.gguf"`)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "clone/scripts/demo"), 0o700))
	for seed, name := range []string{"train", "held-out"} {
		records := instructtest.Records(t, instructtest.Words(uint64(1+seed), 60))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "clone/scripts/demo", name+".jsonl"), []byte(records), 0o600))
	}

	c := exec.Command("sh", "-eu", "-c", block+`echo "the environment is $GOGGML_TEST_ENV"`)
	c.Dir = folder
	c.Env = append(os.Environ(), "HERE="+folder, "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
	out := need.Output(t, c)
	require.Contains(t, out, "stock llama.cpp was started\nthe environment is set\n")
	require.FileExists(t, filepath.Join(folder, "ggml/runs/desk/adapter-best.gguf"))
}

// Each file of docs/recipes trains on data of its kind.
func TestRecipes(t *testing.T) {
	need.Time(t, "runs all recipes")
	recipes := need.Value(filepath.Glob(filepath.Join(root, "docs", "recipes", "*.yaml")))(t)
	folder := t.TempDir()
	require.NoError(t, writeChatFiles(t, folder))
	words := instructtest.Words(1, 120)
	var tools, labels, pairs, answers, text strings.Builder
	for i, w := range words {
		tools.WriteString(`{"messages": [{"role": "user", "content": "` + w + `"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "next", "arguments": {"word": "` + w + `"}}}]}, {"role": "tool", "content": "` + instructtest.Answer(w) + `"}, {"role": "assistant", "content": "` + instructtest.Answer(w) + `"}], "tools": [{"type": "function", "function": {"name": "next"}}]}` + "\n")
		labels.WriteString(`{"prompt": "` + w + `", "completion": "` + instructtest.Answer(w)[:1] + `"}` + "\n")
		pairs.WriteString(`{"prompt": "` + w + `", "chosen": "` + instructtest.Answer(w) + `", "rejected": "` + instructtest.Answer(w)[:1] + `"}` + "\n")
		answers.WriteString(`{"prompt": "` + w + `", "completion": "` + instructtest.Answer(w) + `", "label": ` + strconv.FormatBool(i%2 == 0) + "}\n")
		text.WriteString(w + " ")
	}
	files := map[string]string{
		"chats.jsonl": instructtest.Records(t, words), "tools.jsonl": tools.String(), "labels.jsonl": labels.String(), "pairs.jsonl": pairs.String(), "held-out.jsonl": pairs.String(), "answers.jsonl": answers.String(), "book.txt": text.String(),
		"tools.jinja": `{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ 'user' if m.role == 'tool' else m.role }}|>
{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}`,
	}
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	g := need.Value(ggml.OpenGGUF(filepath.Join(folder, "chat.gguf")))(t)
	defer g.Close()
	require.NoError(t, g.Set("llama.context_length", uint32(256))) // room for a list of tools
	require.NoError(t, g.WriteFile(filepath.Join(folder, "model.gguf")))
	require.NoError(t, g.WriteFile(filepath.Join(folder, "teacher.gguf")))
	var names []string
	for _, path := range recipes {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		names = append(names, name)
		recipe := need.Value(filepath.Abs(path))(t)
		args := []string{"--config", recipe, "--adam-iter", "3", "--ctx", "200", "--threads", "1"}
		if name == "tools" {
			args = append(args, "--chat-template", "tools.jinja")
		}
		if name == "distil" { // a teacher that differs from the student
			args = append(args, "--teacher-lora", filepath.Join("runs", "chat", "adapter.gguf"))
		}
		c := exec.Command("finetune", args...)
		c.Dir = folder
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		require.FileExists(t, filepath.Join(folder, "runs", name, "adapter-best.gguf"))
	}
	slices.Sort(names)
	require.Equal(t, []string{"chat", "classify", "distil", "label", "prefer", "rule", "style", "tools"}, names)
}
