package generate_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// The benchmarks beside stock llama.cpp take a sample of ours and a sample of
// theirs in turn, and compare the best of each, so that other work on the
// machine disturbs both alike. They need the programs that scripts/llamacpp
// puts into build/llamacpp. The environment variables GOGGML_BENCH_SHAPE (28M,
// 0.3B or 1.1B), GOGGML_BENCH_THREADS and GOGGML_BENCH_ROUNDS change them.
const (
	stockFolder = "../../build/llamacpp"
	benchFolder = "../../build/bench"
	promptSize  = 512
	steps       = 32
)

type benchSettings struct {
	shape   string
	config  model.Config
	threads int
	rounds  int
}

var shapes = map[string]func() model.Config{"28M": benchmodel.Small, "0.3B": benchmodel.Medium, "1.1B": benchmodel.Large}

func settings(b *testing.B) benchSettings {
	b.Helper()
	if _, err := os.Stat(filepath.Join(stockFolder, "speed")); err != nil {
		b.Skip("there is no stock llama.cpp: run scripts/llamacpp")
	}
	number := func(name string, fallback int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return fallback
	}
	s := benchSettings{
		shape: cmp.Or(os.Getenv("GOGGML_BENCH_SHAPE"), "0.3B"), threads: number("GOGGML_BENCH_THREADS", ggml.DefaultThreads()), rounds: number("GOGGML_BENCH_ROUNDS", 5),
	}
	make, ok := shapes[s.shape]
	require.True(b, ok, "GOGGML_BENCH_SHAPE=%s: there is no such shape", s.shape)
	s.config = make()
	return s
}

func (s benchSettings) file(b *testing.B, t ggml.Type) string {
	b.Helper()
	path, err := benchmodel.File(benchFolder, s.shape, s.config, t)
	require.NoError(b, err)
	return path
}

// A stock is llama.cpp waiting for requests, see scripts/interop/speed.c.
type stock struct {
	in  io.Writer
	out *bufio.Scanner
}

func startStock(b *testing.B, s benchSettings, path string, args ...string) *stock {
	b.Helper()
	args = append([]string{filepath.Join(stockFolder, "speed"), "-t", strconv.Itoa(s.threads), "-c", "1024"}, append(args, path)...)
	cmd := exec.Command(filepath.Join(stockFolder, "run"), args...)
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &stock{in, bufio.NewScanner(out)}
}

// sample asks for one, and gives the time it took.
func (s *stock) sample(b *testing.B, format string, args ...any) time.Duration {
	b.Helper()
	_, err := fmt.Fprintf(s.in, format+"\n", args...)
	require.NoError(b, err)
	require.True(b, s.out.Scan(), "llama.cpp has ended")
	seconds, err := strconv.ParseFloat(s.out.Text(), 64)
	require.NoError(b, err)
	return time.Duration(seconds * 1e9)
}

// A timed function takes a sample, and gives the time of what counts of it.
type timed func() time.Duration

// best is the shortest time of each sampler in as many rounds.
func best(rounds int, samplers ...timed) []time.Duration {
	shortest := make([]time.Duration, len(samplers))
	for i := range rounds + 1 {
		for j, sample := range samplers {
			t := sample()
			if i > 0 && (shortest[j] == 0 || t < shortest[j]) { // the first warms up
				shortest[j] = t
			}
		}
	}
	return shortest
}

// beside reports the speed of ours and theirs, and the ratio.
func beside(b *testing.B, s benchSettings, tokens int, ours, theirs timed) {
	b.Helper()
	t := best(s.rounds, ours, theirs)
	b.ReportMetric(float64(tokens)/t[0].Seconds(), "tokens/s")
	b.ReportMetric(float64(tokens)/t[1].Seconds(), "stock-tokens/s")
	b.ReportMetric(t[1].Seconds()/t[0].Seconds(), "ratio")
	b.ReportMetric(0, "ns/op")
}

// A session is one of ours, or a group for several sequences.
type benchSession struct {
	b     *testing.B
	vocab int
	s     *model.Session
	rng   *rand.Rand
}

func (s benchSettings) load(b *testing.B, path string) *model.Model {
	b.Helper()
	m, err := model.Load(path, model.LoadOptions{Repack: true})
	require.NoError(b, err)
	b.Cleanup(func() { m.Close() })
	return m
}

func (s benchSettings) session(b *testing.B, m *model.Model, o model.SessionOptions) *benchSession {
	b.Helper()
	o.Context, o.Threads = 1024, s.threads
	session, err := m.NewSession(o)
	require.NoError(b, err)
	b.Cleanup(func() { session.Close() })
	return &benchSession{b, m.Vocab, session, rand.New(rand.NewPCG(1, 1))}
}

func (s *benchSession) tokens(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(s.rng.IntN(s.vocab))
	}
	return tokens
}

func (s *benchSession) decode(n int) {
	_, err := s.s.Decode(context.Background(), s.tokens(n))
	require.NoError(s.b, err)
}

// prompt computes n tokens at once.
func (s *benchSession) prompt(n int) timed {
	return func() time.Duration {
		require.NoError(s.b, s.s.Truncate(0))
		began := time.Now()
		s.decode(n)
		return time.Since(began)
	}
}

// generate computes n tokens one by one, after a first one.
func (s *benchSession) generate(n int) timed {
	return func() time.Duration {
		require.NoError(s.b, s.s.Truncate(0))
		s.decode(1)
		began := time.Now()
		for range n {
			s.decode(1)
		}
		return time.Since(began)
	}
}

// Prompts and generation beside stock llama.cpp on the same file, threads and
// type of KV cache.
func BenchmarkStock(b *testing.B) {
	s := settings(b)
	for _, c := range []struct{ weights, cache ggml.Type }{
		{ggml.F16, ggml.F16}, {ggml.Q8_0, ggml.F16}, {ggml.Q8_0, ggml.Q8_0}, {ggml.Q4_0, ggml.F16}, {ggml.Q4_K, ggml.F16},
	} {
		b.Run(fmt.Sprintf("%s/%v/cache-%v", s.shape, c.weights, c.cache), func(b *testing.B) {
			path := s.file(b, c.weights)
			stock := startStock(b, s, path, "-k", c.cache.String())
			ours := s.session(b, s.load(b, path), model.SessionOptions{CacheType: c.cache})
			b.Run("prompt", func(b *testing.B) {
				beside(b, s, promptSize, ours.prompt(promptSize), func() time.Duration { return stock.sample(b, "prompt %d", promptSize) })
			})
			b.Run("generate", func(b *testing.B) {
				beside(b, s, steps, ours.generate(steps), func() time.Duration { return stock.sample(b, "generate %d 1", steps) })
			})
		})
	}
}

// The same beside the program llama-bench.
func BenchmarkLlamaBench(b *testing.B) {
	s := settings(b)
	for _, t := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		b.Run(fmt.Sprintf("%s/%v", s.shape, t), func(b *testing.B) {
			path := s.file(b, t)
			ours := s.session(b, s.load(b, path), model.SessionOptions{CacheType: ggml.F16})
			b.Run("prompt", func(b *testing.B) {
				beside(b, s, promptSize, ours.prompt(promptSize), func() time.Duration { return llamaBench(b, s, path, promptSize, 0) })
			})
			b.Run("generate", func(b *testing.B) {
				beside(b, s, steps, ours.generate(steps), func() time.Duration { return llamaBench(b, s, path, 0, steps) })
			})
		})
	}
}

// llamaBench is the best of two samples of llama-bench.
func llamaBench(b *testing.B, s benchSettings, path string, prompt, generate int) time.Duration {
	b.Helper()
	out, err := exec.Command(filepath.Join(stockFolder, "run"), "llama-bench", "-m", path, "-t", strconv.Itoa(s.threads),
		"-p", strconv.Itoa(prompt), "-n", strconv.Itoa(generate), "-r", "2", "-o", "json").Output()
	require.NoError(b, err)
	var tests []struct {
		Samples []int64 `json:"samples_ns"`
	}
	require.NoError(b, json.Unmarshal(out, &tests))
	require.Len(b, tests, 1)
	return time.Duration(min(tests[0].Samples[0], tests[0].Samples[1]))
}

// An adapter of rank 16 on all matrices of the layers, beside the same without
// it, and beside stock llama.cpp with it.
func BenchmarkStockAdapter(b *testing.B) {
	s := settings(b)
	for _, t := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K} {
		b.Run(fmt.Sprintf("%s/%v", s.shape, t), func(b *testing.B) {
			path := s.file(b, t)
			m := s.load(b, path)
			adapter := filepath.Join(b.TempDir(), "adapter.gguf")
			deltas := makeAdapter(b, m, adapter)
			stock := startStock(b, s, path, "-a", adapter+"=1")
			plain := s.session(b, m, model.SessionOptions{CacheType: ggml.F16})
			adapted := s.session(b, m, model.SessionOptions{CacheType: ggml.F16, Deltas: deltas})
			report := func(b *testing.B, tokens int, t []time.Duration) {
				b.ReportMetric(float64(tokens)/t[0].Seconds(), "tokens/s")
				b.ReportMetric(t[1].Seconds()/t[0].Seconds(), "of-plain")
				b.ReportMetric(t[2].Seconds()/t[0].Seconds(), "ratio")
				b.ReportMetric(0, "ns/op")
			}
			b.Run("prompt", func(b *testing.B) {
				report(b, promptSize, best(s.rounds, adapted.prompt(promptSize), plain.prompt(promptSize),
					func() time.Duration { return stock.sample(b, "prompt %d", promptSize) }))
			})
			b.Run("generate", func(b *testing.B) {
				report(b, steps, best(s.rounds, adapted.generate(steps), plain.generate(steps),
					func() time.Duration { return stock.sample(b, "generate %d 1", steps) }))
			})
		})
	}
}

// makeAdapter writes an adapter that changes something.
func makeAdapter(b *testing.B, m *model.Model, path string) model.Deltas {
	b.Helper()
	a, err := lora.New(m, lora.Options{Rank: 16, Alpha: 16})
	require.NoError(b, err)
	b.Cleanup(func() { a.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		for i := range values {
			values[i] = float32(1e-3 * rng.NormFloat64())
		}
		require.NoError(b, ggml.Write(p.B, values))
	}
	require.NoError(b, a.Save(path, lora.SaveOptions{}))
	return a.Deltas(1)
}

// The next tokens of several sequences at once.
func BenchmarkStockGroup(b *testing.B) {
	s := settings(b)
	path := s.file(b, ggml.Q8_0)
	m := s.load(b, path)
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("%s/q8_0/sequences-%d", s.shape, n), func(b *testing.B) {
			stock := startStock(b, s, path, "-s", strconv.Itoa(n))
			g, err := m.NewGroup(n, model.SessionOptions{Context: 1024, Threads: s.threads, CacheType: ggml.F16})
			require.NoError(b, err)
			defer g.Close()
			ours := func() time.Duration { return generateGroup(b, g, n) }
			beside(b, s, n*steps, ours, func() time.Duration { return stock.sample(b, "generate %d %d", steps, n) })
		})
	}
}

func generateGroup(b *testing.B, g *model.Group, sequences int) time.Duration {
	b.Helper()
	ctx := context.Background()
	next := make([]model.Next, sequences)
	for i := range next {
		s, _, err := g.Start(ctx, []int32{int32(i)})
		require.NoError(b, err)
		defer s.Close()
		next[i].Sequence = s
	}
	began := time.Now()
	for range steps {
		for i := range next {
			next[i].Token = int32(rand.IntN(1000))
		}
		_, err := g.Step(ctx, next)
		require.NoError(b, err)
	}
	return time.Since(began)
}

// Loading takes as long as reading the header, whatever the size.
func BenchmarkLoad(b *testing.B) {
	for _, shape := range []string{"28M", "1.1B"} {
		for _, repack := range []bool{false, true} {
			name := strings.ReplaceAll(fmt.Sprintf("%s/repack %v", shape, repack), " ", "-")
			b.Run(name, func(b *testing.B) {
				path, err := benchmodel.File(benchFolder, shape, shapes[shape](), ggml.Q8_0)
				require.NoError(b, err)
				for b.Loop() {
					m, err := model.Load(path, model.LoadOptions{Repack: repack})
					require.NoError(b, err)
					m.Close()
				}
			})
		}
	}
}
