package train_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

const (
	stockRun      = "../../build/llamacpp/run"
	finetuneBatch = 256 // tokens per step, in one sample
)

// Compares training with llama-finetune of stock llama.cpp, which trains all weights of a model in
// F32. The model has the layers of the small one and a byte vocabulary.
func BenchmarkBesideFinetune(b *testing.B) {
	if _, err := os.Stat(stockRun); err != nil {
		b.Skip("there is no stock llama.cpp: run scripts/llamacpp")
	}
	shape, text, path, quantised := byteModel(b)
	b.Run("program=llama-finetune/trained=all/base=F32", func(b *testing.B) { benchmarkLlamaFinetune(b, path, text) })
	run := scalingRun{Model: path, Context: finetuneBatch, Batch: 1, Rank: 8, Threads: runtime.NumCPU()}
	full, small := run, run
	full.Full = true
	small.Model, small.ComputeType = quantised, kernels.FastestType()
	b.Run("program=goggml/trained=all/base=F32", func(b *testing.B) { benchmarkJob(b, full, shape) })
	b.Run("program=goggml/trained=LoRA/base=F32", func(b *testing.B) { benchmarkJob(b, run, shape) })
	b.Run("program=goggml/trained=LoRA/base=Q8_0", func(b *testing.B) { benchmarkJob(b, small, shape) })
}

// byteModel writes a text, and a model for it in F32 and in Q8_0.
func byteModel(b *testing.B) (shape arch.Config, text, path, quantised string) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	letters := make([]byte, 64*finetuneBatch)
	for i := range letters {
		letters[i] = byte('a' + rng.IntN(26))
	}
	// Split into words: tokenizing one of many thousand letters is slow.
	for i := 7; i < len(letters); i += 8 {
		letters[i] = ' '
	}
	var texts iter.Seq[string] = func(yield func(string) bool) { yield(string(letters)) }
	config := need.Value(tokenizer.TrainBPE(texts, tokenizer.TrainOptions{VocabSize: 257}))(b)
	vocabulary := need.Value(tokenizer.New(config))(b)
	shape = benchmodel.Small()
	shape.Vocab = vocabulary.NumTokens()
	m := need.Value(model.New(shape, vocabulary, 1))(b)
	defer m.Close()

	folder := need.Value(filepath.Abs(b.TempDir()))(b)
	text, path, quantised = filepath.Join(folder, "text.txt"), filepath.Join(folder, "f32.gguf"), filepath.Join(folder, "q8_0.gguf")
	require.NoError(b, os.WriteFile(text, letters, 0o666))
	require.NoError(b, m.Save(path, model.SaveOptions{}))
	require.NoError(b, m.Save(quantised, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 {
			return old
		}
		return ggml.Q8_0
	}}))
	return shape, text, path, quantised
}

var trainedData = regexp.MustCompile(`train: .* data=0*(\d+)/`)

// benchmarkLlamaFinetune runs it until enough steps are measured, by the times of its progress
// reports.
func benchmarkLlamaFinetune(b *testing.B, path, text string) {
	steps, budget := testutil.BenchTime(b)
	threads, size := strconv.Itoa(runtime.NumCPU()), strconv.Itoa(finetuneBatch)
	var times []time.Duration
	var peak uint64
	testutil.Once(b, func() {
		c := testutil.Command(stockRun, "llama-finetune", "-m", path, "-f", text, "-c", size, "-b", size, "-ub", size,
			"-t", threads, "-tb", threads, "-epochs", "1", "-o", filepath.Join(b.TempDir(), "out.gguf"))
		r, w := io.Pipe()
		var tail bytes.Buffer
		c.Stdout, c.Stderr = w, w
		require.NoError(b, c.Start())
		go func() {
			c.Wait()
			w.Close()
		}()
		last := time.Time{}
		scanner := bufio.NewScanner(io.TeeReader(r, &tail))
		scanner.Split(splitProgress)
		var spent time.Duration
		for (len(times) < steps || spent < budget) && scanner.Scan() {
			found := trainedData.FindStringSubmatch(scanner.Text())
			if found == nil {
				continue
			}
			// Step 1 warms up.
			if now := time.Now(); found[1] != "1" && !last.IsZero() {
				times, spent = append(times, now.Sub(last)), spent+now.Sub(last)
				last = now
			} else {
				last = now
			}
		}
		peak = peakOf(c.Process.Pid)
		c.Process.Kill()
		io.Copy(io.Discard, r)
		require.GreaterOrEqual(b, len(times), steps, "llama-finetune ended early: %s", tail.String())
	})
	reportSteps(b, finetuneBatch, testutil.Turns{times}.Median(0), peak)
}

// splitProgress splits at line ends and carriage returns.
func splitProgress(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// peakOf returns the peak resident memory of a process in bytes; 0 if unknown.
func peakOf(pid int) uint64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	found := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0
	}
	kB, _ := strconv.ParseUint(string(found[1]), 10, 64)
	return kB * 1024
}
