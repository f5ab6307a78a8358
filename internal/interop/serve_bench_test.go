//go:build interop

package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/serve"
)

// servedTokens is how many tokens each request generates, after a prompt that it shares with no other.
const servedTokens = 16

// BenchmarkInteropServe compares the servers in turn, for clients that send a request each at once: the ratios of the times
// from the first request to the last answer, and of the median times to the first token; above 1 ours is faster. Requests
// name no adapter, all the same one, or one of eight. All rows take hours; with -short, the rows of [isShort] take ten minutes:
//
//	go test -tags interop -short -run '^$' -bench InteropServe -benchtime 5s -timeout 30m ./internal/interop
func BenchmarkInteropServe(b *testing.B) {
	mixture := benchmodel.Qwen3MoE()
	mixture.Name, mixture.Layers = "qwen3moe-1.4B", 4
	for _, c := range []arch.Config{benchmodel.Medium(), mixture} {
		b.Run(c.Name, func(b *testing.B) {
			base := servedModel(b, c)
			adapters := servedAdapters(b, base, 8)
			for _, count := range []int{0, 1, 8} {
				for _, clients := range []int{1, 4, 16, 64} {
					if count <= clients {
						benchmarkServers(b, base, adapters[:count], clients, func(prompt int) bool {
							return !testing.Short() || isShort(c, count, clients, prompt)
						})
					}
				}
			}
		})
	}
}

// isShort selects rows: of the small model all but long prompts of many clients, and of the mixture rows of few and of many
// clients.
func isShort(c arch.Config, adapters, clients, prompt int) bool {
	long := prompt > 32
	if c.Experts > 0 {
		return !long && clients == 16 && adapters != 1 || long && clients == 1 && adapters == 0
	}
	return !long || clients <= 4 || clients == 16 && adapters == 8
}

// benchmarkServers compares servers that have been started with adapters and a slot for each client.
func benchmarkServers(b *testing.B, base string, adapters []string, clients int, has func(prompt int) bool) {
	prompts := slices.DeleteFunc([]int{32, 2000}, func(prompt int) bool { return !has(prompt) })
	if len(prompts) == 0 {
		return
	}
	b.Run(fmt.Sprintf("adapters=%d/clients=%d", len(adapters), clients), func(b *testing.B) {
		ours, theirs := startBoth(b, base, adapters, clients)
		for _, prompt := range prompts {
			b.Run(fmt.Sprintf("prompt=%d", prompt), func(b *testing.B) {
				testutil.Once(b, func() { compareServers(b, ours, theirs, clients, len(adapters), prompt) })
			})
		}
	})
}

// servedModel returns a file of a model's shape with a vocabulary.
func servedModel(b *testing.B, c arch.Config) string {
	path := filepath.Join("..", "..", "build", "bench", c.Name+"-q4_K-words.gguf")
	if _, err := os.Stat(path); err != nil {
		words := need.Value(benchmodel.Vocabulary(c.Vocab))(b)
		require.NoError(b, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(b, benchmodel.Write(path, c, ggml.Q4_K, words...))
	}
	return path
}

// servedAdapters writes adapters of rank 16.
func servedAdapters(b *testing.B, base string, count int) (paths []string) {
	m := need.Value(model.Load(base, model.LoadOptions{}))(b)
	defer m.Close()
	for i := range count {
		a := need.Value(lora.New(m, lora.Options{Rank: 16, Alpha: 16, Seed: uint64(i)}))(b)
		path := filepath.Join(b.TempDir(), fmt.Sprintf("%d.gguf", i))
		require.NoError(b, a.Save(path, lora.SaveOptions{}))
		require.NoError(b, a.Close())
		paths = append(paths, path)
	}
	return paths
}

// startBoth starts the servers with equal threads, slots, contexts and types of caches, and without caches of prompts.
func startBoth(b *testing.B, base string, adapters []string, slots int) (ours, theirs *stockServer) {
	const context = 2304
	threads := ggml.DefaultThreads()
	flags := []string{"-t", fmt.Sprint(threads), "-np", fmt.Sprint(slots), "-c", fmt.Sprint(slots * context), "--no-kv-unified", "--cache-ram", "0", "--lora-init-without-apply"}
	for _, path := range adapters {
		flags = append(flags, "--lora", path)
	}
	theirs = startServer(b, base, flags...)
	m := need.Value(llm.Open(base, llm.Options{Session: infer.SessionOptions{Context: context, Threads: threads, Sequences: slots, CacheType: ggml.F16}}))(b)
	b.Cleanup(func() { m.Close() })
	h := need.Value(serve.New(m, serve.Options{}))(b)
	named := map[string]*llm.Adapter{}
	for i, path := range adapters {
		named[fmt.Sprint(i)] = need.Value(m.LoadAdapter(b.Context(), path, 1))(b)
	}
	h.SetAdapters(named)
	server := httptest.NewServer(h)
	b.Cleanup(server.Close)
	return &stockServer{url: server.URL}, theirs
}

func compareServers(b *testing.B, ours, theirs *stockServer, clients, adapters, prompt int) {
	var seed uint64
	var firsts [2][]time.Duration // to the first token, of each round
	sample := func(i int, s *stockServer) func() time.Duration {
		return func() time.Duration {
			seed++
			took, first := s.load(b, clients, adapters, prompt, seed*1000)
			firsts[i] = append(firsts[i], first)
			return took
		}
	}
	rounds, budget := testutil.BenchTime(b)
	turns := testutil.InTurn(rounds, budget, sample(0, ours), sample(1, theirs))
	first := testutil.Turns{}
	for i := range firsts { // the first rounds warm up
		first = append(first, firsts[i][len(firsts[i])-len(turns[i]):])
	}
	b.ReportMetric(float64(clients*servedTokens)/turns.Median(0).Seconds(), "tok/s")
	b.ReportMetric(turns.Ratio(1, 0), "×stock")
	b.ReportMetric(first.Median(0).Seconds()*1000, "first-ms")
	b.ReportMetric(first.Ratio(1, 0), "×stock-first")
	b.ReportMetric(float64(len(turns[0])), "pairs")
}

// load sends a request of each client at once. It returns the time until all are answered, and the median time to the first
// token.
func (s *stockServer) load(b *testing.B, clients, adapters, prompt int, seed uint64) (took, first time.Duration) {
	firsts, faults := make([]time.Duration, clients), make([]error, clients)
	bodies := make([][]byte, clients)
	for i := range bodies {
		request := map[string]any{
			"prompt": benchmodel.Text(seed+uint64(i), prompt*5/6), "max_tokens": servedTokens, "temperature": 0, "ignore_eos": true,
			"stream": true, "stream_options": map[string]any{"include_usage": true}, "cache_prompt": false,
		}
		if adapters > 0 {
			request["model"] = fmt.Sprint(i % adapters)
			request["lora"] = []map[string]any{{"id": i % adapters, "scale": 1}} // for llama-server
		}
		bodies[i] = need.Value(json.Marshal(request))(b)
	}
	began := time.Now()
	var all sync.WaitGroup
	for i := range bodies {
		all.Add(1)
		go func() {
			defer all.Done()
			firsts[i], faults[i] = s.stream(bodies[i])
		}()
	}
	all.Wait()
	took = time.Since(began)
	for _, err := range faults {
		require.NoError(b, err)
	}
	slices.Sort(firsts)
	return took, firsts[clients/2]
}

// stream reads the whole answer, and returns the time to its first part.
func (s *stockServer) stream(body []byte) (first time.Duration, err error) {
	began := time.Now()
	response, err := http.Post(s.url+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Usage struct {
			Tokens int `json:"completion_tokens"`
		}
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if ok && first == 0 {
			first = time.Since(began)
		}
		if ok && strings.HasPrefix(data, "{") {
			if err := json.Unmarshal([]byte(data), &answer); err != nil {
				return 0, err
			}
		}
	}
	if answer.Usage.Tokens != servedTokens {
		return 0, fmt.Errorf("status %s, %d tokens instead of %d", response.Status, answer.Usage.Tokens, servedTokens)
	}
	return first, lines.Err()
}
