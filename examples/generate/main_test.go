package main

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/clitest"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestMain(m *testing.M) {
	clitest.Main(m, map[string]func(){"generate": main})
}

// The scripts have a tiny model, one with a chat template, and an adapter in their folder.
func TestScripts(t *testing.T) {
	clitest.RunScripts(t, testscript.Params{
		Dir:       "testdata/script",
		Condition: clitest.Condition,
		Cmds:      map[string]func(*testscript.TestScript, bool, []string){"contents": contents, "vectors": vectors},
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"tiny.gguf", "tiny-lora.gguf"} {
				if err := unzip(filepath.Join(e.WorkDir, name), name); err != nil {
					return err
				}
			}
			return addTemplate(filepath.Join(e.WorkDir, "chat.gguf"), filepath.Join(e.WorkDir, "tiny.gguf"))
		},
	})
}

// unzip writes a test file of the model package to path.
func unzip(path, name string) error {
	packed, err := os.Open(filepath.Join("..", "..", "internal", "test", "llmtest", "testdata", name+".gz"))
	if err != nil {
		return err
	}
	defer packed.Close()
	data, err := gzip.NewReader(packed)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, data)
	return err
}

// An interrupt ends the text, not the line: the partial text stays, with the speed below it.
func TestInterrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	require.NoError(t, unzip(path, "tiny.gguf"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, log strings.Builder
	p := &program{
		SessionFlags: inference.SessionFlags{ModelFlags: inference.ModelFlags{Model: path, Threads: 1, Ctx: 100_000}, CacheType: "q8_0", Stats: true},
		Prompt:       []string{"-"}, Samples: 1, Parallel: 1, IgnoreEOS: true, Sampling: inference.Sampling{Drawing: inference.Drawing{Temp: 1}},
	}
	err := p.run(ctx, strings.NewReader("Once"), &stopper{&out, cancel, 20}, &log)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, strings.HasSuffix(out.String(), "\n"), out.String())
	require.Contains(t, log.String(), "generated: 20 tokens in ") // one token arrives before the interrupt; one completes no character
	require.Empty(t, ggml.OpenObjects())
}

// Text that cannot be written is an error, for one prompt and for several.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	require.NoError(t, unzip(path, "tiny.gguf"))
	for samples := 1; samples <= 2; samples++ {
		p := &program{
			SessionFlags: inference.SessionFlags{ModelFlags: inference.ModelFlags{Model: path, Threads: 1, Ctx: 64}, CacheType: "f16"},
			Prompt:       []string{"Once"}, Samples: samples, Parallel: 2, NPredict: testutil.Ptr(4),
		}
		err := p.run(context.Background(), nil, full{}, io.Discard)
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A stopper calls stop at the n-th write.
type stopper struct {
	io.Writer
	stop func()
	n    int
}

func (s *stopper) Write(b []byte) (int, error) {
	if s.n--; s.n == 0 {
		s.stop()
	}
	return s.Writer.Write(b)
}

// Numeric flags accept or reject 0, -1, the largest number, NaN and infinity; -v prints the results.
func TestNumbers(t *testing.T) {
	require.GreaterOrEqual(t, clitest.Numbers(t, "generate", new(program)), 10)
}
