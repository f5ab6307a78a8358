package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/internal/test/need"
)

// A run with any accepted number ends, and its error names the flag.
func TestExtremeNumbersRun(t *testing.T) {
	need.Time(t, "it trains a hundred times")
	folder := t.TempDir()
	require.NoError(t, writeFiles(folder))
	line := newCommandLine(t)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, command := range line.parser.Model.Leaves(false) {
		for _, f := range command.Flags {
			if command.Name != "train" || !clitest.IsNumber(f) {
				continue
			}
			for _, value := range clitest.Extremes(f) {
				if _, err := line.parse("train", "--model-base=x", "--"+f.Name+"="+value); err == nil {
					group.Go(func() error { return runExtreme(folder, f, value) })
				}
			}
		}
	}
	require.NoError(t, group.Wait())
}

func runExtreme(folder string, f *kong.Flag, value string) error {
	flag := "--" + f.Name
	out := filepath.Join(folder, f.Name+" "+value+".gguf")
	args := []string{"--model-base", "base.gguf", "--train-data", "text.txt", "--valid-data", "held.txt", "--valid-every", "1", "--ctx", "16", "--batch", "1", "--grad-acc", "1",
		"--adam-iter", "2", "--threads", "1", "--lora-out", out, flag + "=" + value}
	if f.Name == "cos-decay-restart" {
		args = append(args, "--cos-decay-steps", "1", "--enable-restart")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "finetune", args...)
	c.Dir = folder
	text, err := c.CombinedOutput()
	last := text[bytes.LastIndexByte(bytes.TrimSpace(text), '\n')+1:]
	if err != nil && !(bytes.HasPrefix(last, []byte("finetune: ")) && bytes.Contains(last, []byte(flag))) {
		return fmt.Errorf("%s=%s: %w\n%s", flag, value, err, last)
	}
	return nil
}
