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
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// The benchmarks against stock llama.cpp alternate samples of goggml and llama.cpp, and
// report the median of the ratios of all turns, so that other work on the machine disturbs
// both alike. They need the programs that scripts/llamacpp puts into build/llamacpp. The
// distribution of llama.cpp may contain a different build of ggml's CPU plugin, with faster or
// slower code. So same-plugin-ratio reports the ratio to llama.cpp with goggml's plugin.
//
// Environment variables: GOGGML_BENCH_SHAPE (28M, 0.3B, 1.1B or another key of shapes),
// GOGGML_BENCH_THREADS and GOGGML_BENCH_ROUNDS. On a busy machine, GOGGML_BENCH_CLOCK=cpu with
// one thread compares processor time.
const (
	stockFolder = "../../build/llamacpp"
	benchFolder = "../../build/bench"
	promptSize  = 512
	steps       = 32
)

type benchSettings struct {
	shape   string
	config  arch.Config
	threads int
	cpu     bool // compare processor time
}

// now returns the wall-clock or processor time since an arbitrary start.
func (s benchSettings) now() time.Duration {
	if !s.cpu {
		return time.Since(started)
	}
	return testutil.ProcessorTime()
}

var started = time.Now()

// shapes are the models by name.
var shapes = func() map[string]arch.Config {
	byName := map[string]arch.Config{}
	for _, c := range slices.Concat([]arch.Config{benchmodel.Small(), benchmodel.Medium(), benchmodel.Large()}, benchmodel.Others()) {
		byName[c.Name] = c
	}
	return byName
}()

func settings(b *testing.B) benchSettings {
	b.Helper()
	if _, err := os.Stat(filepath.Join(stockFolder, "speed")); err != nil {
		b.Skip("there is no stock llama.cpp: run scripts/llamacpp")
	}
	s := benchSettings{threads: ggml.DefaultThreads(), cpu: os.Getenv("GOGGML_BENCH_CLOCK") == "cpu"}
	if n, err := strconv.Atoi(os.Getenv("GOGGML_BENCH_THREADS")); err == nil {
		s.threads = n
	}
	return s.of(chosenShapes(b, benchmodel.Medium())[0])
}

// chosenShapes returns the shape that GOGGML_BENCH_SHAPE names, or else the others.
func chosenShapes(b *testing.B, others ...arch.Config) []arch.Config {
	b.Helper()
	name := os.Getenv("GOGGML_BENCH_SHAPE")
	if name == "" {
		return others
	}
	require.Contains(b, shapes, name, "GOGGML_BENCH_SHAPE: there is no such shape")
	return []arch.Config{shapes[name]}
}

// tableShapes returns the shapes of the tables beside stock llama.cpp, a mixture of experts among them.
func tableShapes(b *testing.B) []arch.Config {
	if testing.Short() {
		return chosenShapes(b, benchmodel.Medium())
	}
	return chosenShapes(b, benchmodel.Small(), benchmodel.Medium(), benchmodel.Large(), benchmodel.Qwen3MoE())
}

// of returns the settings with the shape of c.
func (s benchSettings) of(c arch.Config) benchSettings {
	s.shape, s.config = c.Name, c
	return s
}

func (s benchSettings) file(b *testing.B, t ggml.Type) string {
	b.Helper()
	return need.Value(benchmodel.File(benchFolder, s.shape, s.config, t))(b)
}

// A stock is a running llama.cpp that waits for requests, see scripts/interop/speed.c.
type stock struct {
	in  io.Writer
	out *bufio.Scanner
}

func startStock(b *testing.B, s benchSettings, plugins, path string, args ...string) *stock {
	b.Helper()
	args = append([]string{"-t", strconv.Itoa(s.threads), "-c", "1024"}, args...)
	if s.cpu {
		args = append(args, "-u", "cpu")
	}
	cmd := stockCommand(b, plugins, filepath.Join(stockFolder, "speed"), append(args, path)...)
	in := need.Value(cmd.StdinPipe())(b)
	out := need.Value(cmd.StdoutPipe())(b)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &stock{in, bufio.NewScanner(out)}
}

// stockCommand runs a program of llama.cpp through the loader of its C library, in the folder
// plugins: the loader is then the running executable, beside which llama.cpp finds its plugins.
func stockCommand(b *testing.B, plugins, program string, args ...string) *exec.Cmd {
	b.Helper()
	loaders := need.Value(filepath.Glob(filepath.Join(plugins, "ld-linux*")))(b)
	require.Len(b, loaders, 1)
	lib := filepath.Join(stockFolder, "lib")
	c := exec.Command(loaders[0], append([]string{"--library-path", lib + ":" + filepath.Join(lib, "llama"), program}, args...)...)
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GGML_BACKEND_PATH=") }) // for llama.cpp it names a file
	return c
}

// plugins returns plugin folders for stockCommand: llama.cpp's, and one with goggml's plugins if
// ggml/ contains them, and llama.cpp is built for the same ABI. GGML_BACKEND_PATH names a folder of some of the latter, to which both are then limited.
func plugins(b *testing.B) []string {
	b.Helper()
	own, some := filepath.Join(stockFolder, "loader"), os.Getenv("GGML_BACKEND_PATH")
	ours := need.Value(filepath.Glob(filepath.Join(cmp.Or(some, "../../ggml/lib/ggml/backends*"), "libggml-cpu*.so")))(b)
	if len(ours) == 0 {
		return []string{own}
	}
	loaders := need.Value(filepath.Glob(filepath.Join(own, "ld-linux*")))(b)
	if some != "" {
		theirs := slices.Clone(loaders)
		for _, file := range ours {
			theirs = append(theirs, filepath.Join(own, filepath.Base(file)))
		}
		own = copies(b, theirs)
	}
	abi, _, _ := strings.Cut(ggml.Version(), ".")
	if _, err := os.Stat(filepath.Join(stockFolder, "lib", "libggml-base.so."+abi)); err != nil {
		return []string{own}
	}
	return []string{own, copies(b, slices.Concat(loaders, ours))}
}

// copies returns a folder with copies of files.
func copies(b *testing.B, files []string) string {
	b.Helper()
	folder := b.TempDir()
	for _, file := range files {
		data := need.Value(os.ReadFile(file))(b)
		require.NoError(b, os.WriteFile(filepath.Join(folder, filepath.Base(file)), data, 0o755))
	}
	return folder
}

// stocks starts a llama.cpp with each folder of plugins, and returns their samplers of a work.
func (w work) stocks(b *testing.B, s benchSettings, path string, args ...string) []timed {
	b.Helper()
	args = append(args, "-s", strconv.Itoa(max(1, w.sequences)))
	var samplers []timed
	for _, p := range plugins(b) {
		running := startStock(b, s, p, path, args...)
		samplers = append(samplers, func() time.Duration {
			if w.sequences == 0 {
				return running.sample(b, "prompt %d", promptSize)
			}
			return running.sample(b, "generate %d %d", steps, w.sequences)
		})
	}
	return samplers
}

// sample requests a sample and returns its time.
func (s *stock) sample(b *testing.B, format string, args ...any) time.Duration {
	b.Helper()
	_, err := fmt.Fprintf(s.in, format+"\n", args...)
	require.NoError(b, err)
	require.True(b, s.out.Scan(), "llama.cpp has ended")
	seconds := need.Value(strconv.ParseFloat(s.out.Text(), 64))(b)
	return time.Duration(seconds * 1e9)
}

// A timed function takes a sample and returns its measured time.
type timed = func() time.Duration

// rested waits before each sample until the threads of the program that computed before it sleep: OpenMP's spin for up to 16 ms.
func rested(sample timed) timed {
	return func() time.Duration {
		time.Sleep(50 * time.Millisecond)
		return sample()
	}
}

// beside samples ours, others and theirs in turn. It reports the tokens/s of ours, ratio (to theirs
// with llama.cpp's plugin) and same-plugin-ratio (with goggml's, if present). It returns the times of
// ours, others and theirs.
func beside(b *testing.B, tokens int, ours timed, theirs []timed, others ...timed) testutil.Turns {
	b.Helper()
	var t testutil.Turns
	testutil.Once(b, func() {
		all := slices.Concat([]timed{ours}, others, theirs)
		for i, sample := range all {
			all[i] = rested(sample)
		}
		t = testutil.InTurn(testutil.Rounds(), 0, all...)
	})
	b.ReportMetric(float64(tokens)/t.Median(0).Seconds(), "tokens/s")
	for i, unit := range []string{"ratio", "same-plugin-ratio"}[:len(theirs)] {
		b.ReportMetric(t.Ratio(1+len(others)+i, 0), unit)
	}
	return t
}

// A benchSession is a session of goggml.
type benchSession struct {
	benchSettings
	b     *testing.B
	vocab int
	q     *infer.Sequence
	rng   *rand.Rand

	logits []float32
}

// load loads a model to compute a number of sequences at once.
func (s benchSettings) load(b *testing.B, path string, sequences int) *model.Model {
	b.Helper()
	m := need.Value(model.Load(path, model.LoadOptions{Repack: true, Sequences: max(1, sequences)}))(b)
	b.Cleanup(func() { m.Close() })
	return m
}

func (s benchSettings) session(b *testing.B, m *model.Model, o infer.SessionOptions) *benchSession {
	b.Helper()
	o.Context, o.Threads = 1024, s.threads
	session := need.Value(infer.NewSession(m, o))(b)
	b.Cleanup(func() { session.Close() })
	q := need.Value(session.NewSequence())(b)
	return &benchSession{s, b, m.Config().Vocab, q, rand.New(rand.NewPCG(1, 1)), make([]float32, m.Config().Vocab)}
}

func (s *benchSession) tokens(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(s.rng.IntN(s.vocab))
	}
	return tokens
}

func (s *benchSession) decode(n int) {
	require.NoError(s.b, s.q.DecodeInto(context.Background(), s.logits, s.tokens(n)))
}

func (s *benchSession) rewind() {
	_, err := s.q.Rewind(0)
	require.NoError(s.b, err)
}

// prompt computes n tokens at once.
func (s *benchSession) prompt(n int) timed {
	return func() time.Duration {
		s.rewind()
		began := s.now()
		s.decode(n)
		return s.now() - began
	}
}

// generate computes n tokens one by one, after a first one.
func (s *benchSession) generate(n int) timed {
	return func() time.Duration {
		s.rewind()
		s.decode(1)
		began := s.now()
		for range n {
			s.decode(1)
		}
		return s.now() - began
	}
}

// A work is prefill, or decode of some sequences at once.
type work struct {
	name      string
	sequences int // 0 for prefill
}

// works are the rows of a table for a model and a type of weights.
var works = []work{{"prompt", 0}, {"generate", 1}, {"sequences-4", 4}, {"sequences-16", 16}}

func (w work) tokens() int {
	if w.sequences == 0 {
		return promptSize
	}
	return steps * w.sequences
}

// ours returns a sampler of the work.
func (w work) ours(b *testing.B, s benchSettings, m *model.Model, o infer.SessionOptions) timed {
	b.Helper()
	switch w.sequences {
	case 0:
		return s.session(b, m, o).prompt(promptSize)
	case 1:
		return s.session(b, m, o).generate(steps)
	}
	o.Sequences, o.Context, o.Threads = w.sequences, 1024, s.threads
	session := need.Value(infer.NewSession(m, o))(b)
	b.Cleanup(func() { session.Close() })
	return func() time.Duration { return s.generateSequences(b, session, w.sequences) }
}

// stockTypes are the compared types of weights.
var stockTypes = []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K}

// typesOf returns the types of a list that hold the rows of a shape's matrices.
func typesOf(c arch.Config, types ...ggml.Type) []ggml.Type {
	return slices.DeleteFunc(slices.Clone(types), func(t ggml.Type) bool { return int64(c.Embd)%t.BlockSize() != 0 || int64(c.FF)%t.BlockSize() != 0 })
}

// BenchmarkStock compares prefill and decode with stock llama.cpp on the same file, with the same number of
// threads and a KV cache in F16.
func BenchmarkStock(b *testing.B) {
	s := settings(b)
	for _, c := range tableShapes(b) {
		for _, t := range typesOf(c, stockTypes...) {
			s.of(c).besideStock(b, t, ggml.F16, works...)
		}
	}
}

// BenchmarkStockArchitecture compares further architectures, and llama for reference on the same machine; those with
// recurrent layers also with several sequences.
func BenchmarkStockArchitecture(b *testing.B) {
	need.Time(b, "takes minutes")
	s := settings(b)
	for _, c := range append([]arch.Config{benchmodel.Large()}, benchmodel.Others()...) {
		compared := works[:2]
		if c.StateSize > 0 {
			compared = works[:3]
		}
		for _, t := range typesOf(c, ggml.Q8_0, ggml.Q4_K) {
			s.of(c).besideStock(b, t, ggml.F16, compared...)
		}
	}
}

// BenchmarkStockCache compares with a KV cache in Q8_0. Run it in a separate process, as llama.cpp's is:
// attention takes up to a tenth longer if ggml's sums for it happen to cross a page boundary.
func BenchmarkStockCache(b *testing.B) {
	settings(b).besideStock(b, ggml.Q8_0, ggml.Q8_0, works[:2]...)
}

func (s benchSettings) besideStock(b *testing.B, weights, cache ggml.Type, works ...work) {
	for _, w := range works {
		b.Run(fmt.Sprintf("%s/%v/%s", s.shape, weights, w.name), func(b *testing.B) {
			path := s.file(b, weights)
			ours := w.ours(b, s, s.load(b, path, w.sequences), infer.SessionOptions{CacheType: cache})
			beside(b, w.tokens(), ours, w.stocks(b, s, path, "-k", cache.String()))
		})
	}
}

// BenchmarkLlamaBench compares with the program llama-bench.
func BenchmarkLlamaBench(b *testing.B) {
	s := settings(b)
	s.cpu = false // llama-bench reports only wall-clock time
	for _, t := range stockTypes {
		b.Run(fmt.Sprintf("%s/%v", s.shape, t), func(b *testing.B) {
			path := s.file(b, t)
			ours := s.session(b, s.load(b, path, 1), infer.SessionOptions{CacheType: ggml.F16})
			b.Run("prompt", func(b *testing.B) {
				beside(b, promptSize, ours.prompt(promptSize), llamaBench(b, s, path, promptSize, 0))
			})
			b.Run("generate", func(b *testing.B) {
				beside(b, steps, ours.generate(steps), llamaBench(b, s, path, 0, steps))
			})
		})
	}
}

// llamaBench takes a sample of llama-bench.
func llamaBench(b *testing.B, s benchSettings, path string, prompt, generate int) []timed {
	b.Helper()
	var samplers []timed
	for _, p := range plugins(b) {
		samplers = append(samplers, func() time.Duration {
			out := need.Value(stockCommand(b, p, filepath.Join(stockFolder, "bin", "llama-bench"), "-m", path, "-t", strconv.Itoa(s.threads),
				"-p", strconv.Itoa(prompt), "-n", strconv.Itoa(generate), "-r", "1", "-o", "json").Output())(b)
			var tests []struct {
				Samples []int64 `json:"samples_ns"`
			}
			require.NoError(b, json.Unmarshal(out, &tests))
			require.Len(b, tests, 1)
			require.Len(b, tests[0].Samples, 1)
			return time.Duration(tests[0].Samples[0])
		})
	}
	return samplers
}

// BenchmarkStockAdapter compares an adapter of rank 16 on all matrices of the layers, in F32 and in F16,
// with the model without it, and with stock llama.cpp with it.
func BenchmarkStockAdapter(b *testing.B) {
	s := settings(b)
	for _, c := range tableShapes(b) {
		for _, t := range typesOf(c, stockTypes...) {
			for _, adapter := range []ggml.Type{ggml.F32, ggml.F16} {
				s.of(c).besideAdapter(b, t, adapter)
			}
		}
	}
}

func (s benchSettings) besideAdapter(b *testing.B, weights, typ ggml.Type) {
	for _, w := range works {
		b.Run(fmt.Sprintf("%s/%v/%v/%s", s.shape, weights, typ, w.name), func(b *testing.B) {
			path, adapter := s.file(b, weights), filepath.Join(b.TempDir(), "adapter.gguf")
			m := s.load(b, path, w.sequences)
			adapters := makeAdapter(b, m, adapter, typ)
			plain := w.ours(b, s, m, infer.SessionOptions{CacheType: ggml.F16})
			adapted := w.ours(b, s, m, infer.SessionOptions{CacheType: ggml.F16, Adapters: adapters})
			turns := beside(b, w.tokens(), adapted, w.stocks(b, s, path, "-a", adapter+"=1"), plain)
			b.ReportMetric(turns.Ratio(1, 0), "of-plain")
		})
	}
}

// makeAdapter writes and loads an adapter that changes the results.
func makeAdapter(b *testing.B, m *model.Model, path string, typ ggml.Type) model.Adapters {
	b.Helper()
	a := need.Value(lora.New(m, lora.Options{Rank: 16, Alpha: 16}))(b)
	b.Cleanup(func() { a.Close() })
	rng := rand.New(rand.NewPCG(1, 2))
	for _, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		for i := range values {
			values[i] = float32(1e-3 * rng.NormFloat64())
		}
		require.NoError(b, ggml.Write(p.B, values))
	}
	require.NoError(b, a.Save(path, lora.SaveOptions{Type: typ}))
	loaded := need.Value(lora.Load(path, m))(b)
	b.Cleanup(func() { loaded.Close() })
	return loaded.WithScale(1)
}

func (s benchSettings) generateSequences(b *testing.B, session *infer.Session, sequences int) time.Duration {
	b.Helper()
	ctx := context.Background()
	next := make([]infer.StepInput, sequences)
	for i := range next {
		q := need.Value(session.NewSequence())(b)
		defer q.Close()
		_, err := q.Decode(ctx, []int32{int32(i)})
		require.NoError(b, err)
		next[i].Sequence = q
	}
	began := s.now()
	for range steps {
		for i := range next {
			next[i].Token = int32(rand.IntN(1000))
		}
		require.NoError(b, session.Step(ctx, next))
	}
	return s.now() - began
}

// BenchmarkLoad measures Load, which takes as long as reading the header, whatever the size.
func BenchmarkLoad(b *testing.B) {
	for _, shape := range []string{"28M", "1.1B"} {
		for _, repack := range []bool{false, true} {
			name := strings.ReplaceAll(fmt.Sprintf("%s/repack %v", shape, repack), " ", "-")
			b.Run(name, func(b *testing.B) {
				path := need.Value(benchmodel.File(benchFolder, shape, shapes[shape], ggml.Q8_0))(b)
				for b.Loop() {
					m := need.Value(model.Load(path, model.LoadOptions{Repack: repack}))(b)
					m.Close()
				}
			})
		}
	}
}
