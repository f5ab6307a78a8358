package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/need"
)

// chatFiles caches the files of writeChatFiles for all tests.
var chatFiles struct {
	sync.Once
	files map[string][]byte
	err   error
}

// writeChatFiles writes conversations, and a random model with a chat template.
func writeChatFiles(t *testing.T, folder string) error {
	chatFiles.Do(func() {
		chatFiles.files, chatFiles.err = contentsOf(func(folder string) error { return makeChatFiles(t, folder) })
	})
	return errors.Join(chatFiles.err, writeAll(folder, chatFiles.files))
}

func makeChatFiles(t *testing.T, folder string) error {
	words := instructtest.Records(t, instructtest.Words(1, 20))
	v, path, plain := instructtest.Vocabulary(t), filepath.Join(folder, "chat.gguf"), filepath.Join(folder, "plain.gguf")
	if err := os.WriteFile(filepath.Join(folder, "words.jsonl"), []byte(words), 0o600); err != nil {
		return err
	}
	if err := writeModel(plain, v, v.NumTokens(), 3, true); err != nil {
		return err
	}
	defer os.Remove(plain)
	g, err := ggml.OpenGGUF(plain)
	if err != nil {
		return err
	}
	defer g.Close()
	if err := g.Set("tokenizer.chat_template", instructtest.Template); err != nil {
		return err
	}
	return g.WriteFile(path)
}

// parquet: FROM.jsonl TO.parquet writes messages as a table.
func writeParquet(ts *testscript.TestScript, _ bool, args []string) {
	type message struct {
		Role    string `json:"role" parquet:"role"`
		Content string `json:"content" parquet:"content"`
	}
	type conversation struct {
		Messages []message `json:"messages" parquet:"messages,list"`
	}
	var rows []conversation
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var row conversation
		ts.Check(json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	ts.Check(parquet.WriteFile(ts.MkAbs(args[1]), rows))
}

// A run that is killed while it fills the token cache loses nothing: the next run trains on the same tokens.
func TestKilledWhileCaching(t *testing.T) {
	need.Time(t, "many processes")
	folder := t.TempDir()
	require.NoError(t, writeChatFiles(t, folder))
	records := instructtest.Records(t, instructtest.Words(1, 1000))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "words.jsonl"), []byte(strings.Repeat(records, 16)), 0o600))
	start := func(cache, adapter string) *exec.Cmd {
		c := exec.Command("finetune", "train", "--model-base", "chat.gguf", "--train-data", "words.jsonl", "--ctx", "48",
			"--cache-dir", cache, "--lora-out", adapter, "--adam-iter", "1", "--threads", "1")
		c.Dir = folder
		return c
	}
	files := func(suffix string) []string {
		return need.Value(filepath.Glob(filepath.Join(folder, "cache", "*"+suffix)))(t)
	}
	for try := 0; len(files(".pending")) == 0; try++ { // it finished before the kill
		require.Less(t, try, 20, "it is never killed in time")
		require.NoError(t, os.RemoveAll(filepath.Join(folder, "cache")))
		killed := start("cache", "killed.gguf")
		require.NoError(t, killed.Start())
		require.Eventually(t, func() bool {
			for _, path := range files(".pending") {
				if info, err := os.Stat(path); err == nil && info.Size() > 0 {
					return true
				}
			}
			return len(files(".tokens")) > 0
		}, time.Minute, time.Millisecond)
		_ = killed.Process.Kill() // it may have ended already
		_ = killed.Wait()
	}
	require.Len(t, files(".pending"), 1)
	require.Empty(t, files(".tokens"))

	for _, want := range []struct{ cache, adapter, report string }{
		{"cache", "after.gguf", "10672 examples, 10672 samples, 245328 tokens, 80000 of them trained; 10005 repeated\n"},
		{"cache", "again.gguf", "10672 examples, 10672 samples, 245328 tokens, 80000 of them trained; 10005 repeated; from the cache\n"},
		{"other", "other.gguf", "10672 examples, 10672 samples, 245328 tokens, 80000 of them trained; 10005 repeated\n"},
	} {
		out := need.Output(t, start(want.cache, want.adapter))
		require.Contains(t, out, "--train-data: "+want.report)
	}
	require.Empty(t, files(".pending"))
	require.Len(t, files(".tokens"), 1)
	first := need.Value(os.ReadFile(filepath.Join(folder, "after.gguf")))(t)
	for _, name := range []string{"again.gguf", "other.gguf"} {
		got := need.Value(os.ReadFile(filepath.Join(folder, name)))(t)
		require.Equal(t, first, got, name)
	}
}

// same-metrics: A B compares files of --metrics, without clockFields, which every line must have.
func sameMetrics(ts *testscript.TestScript, neg bool, args []string) {
	read := func(path string) string {
		text := ts.ReadFile(path)
		for line := range strings.Lines(text) {
			evaluation := strings.Contains(line, `"eval_loss"`)
			if found := len(clockFields.FindAllString(line, -1)); found != 3 && !(evaluation && found == 2) {
				ts.Fatalf("%s: %d fields of the clock in %s", path, found, line)
			}
		}
		return clockFields.ReplaceAllString(text, "")
	}
	if a, b := read(args[0]), read(args[1]); (a == b) == neg {
		ts.Fatalf("%s\n%s", a, b)
	}
}
