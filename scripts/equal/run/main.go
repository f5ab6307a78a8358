// Command run trains small adapters and computes logits, and writes all results to files, which
// scripts/equal-against compares between commits. Both commits build it: a build tag selects the file for each
// one's API.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

const threads = 2

func main() {
	out := flag.String("out", "", "folder for the results")
	resume := flag.String("resume", "", "folder of results whose checkpoints are resumed; by default the folder of -out")
	flag.Parse()
	if *resume == "" {
		*resume = *out
	}
	for _, path := range flag.Args() {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		if err := compared(path, filepath.Join(*resume, name), *resume == *out); err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", name, err)
			continue
		}
		for _, lowering := range []opSet{device.Kernels, device.Stock} {
			folder := filepath.Join(name, string(lowering))
			r := &results{path: path, out: filepath.Join(*out, folder), resume: filepath.Join(*resume, folder)}
			r.engine = newEngine(lowering)
			r.kernels = lowering == device.Kernels
			if r.half = 10; !r.kernels {
				r.half = 2 // several times slower
			}
			r.all()
			check(r.engine.Close())
		}
	}
}

// compared returns the reason for which a model is not compared: the other commit, which computes first, does
// not load it.
func compared(path, theirs string, isFirst bool) error {
	if !isFirst {
		_, err := os.Stat(theirs)
		return err
	}
	m, err := model.Load(path, model.LoadOptions{})
	if err != nil {
		return err
	}
	return m.Close()
}

// results are the results of a model with a lowering.
type results struct {
	path, out, resume string
	engine            *device.Engine
	kernels           bool
	half              int // steps before a run's checkpoint, and after it
}

func (r *results) all() {
	m := load(r.path, loading{})
	defer m.Close()
	adapter := r.train(m)
	defer adapter.Close()
	r.files(m, adapter)
	r.infer(m, adapter)
	r.weights()
}

// file returns the path of a result.
func (r *results) file(name string) string {
	path := filepath.Join(r.out, name)
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

// write writes numbers as a result.
func write[T float32 | float64](r *results, name string, values []T) {
	bits := make([]byte, 0, 8*len(values))
	for _, v := range values {
		bits = binary.LittleEndian.AppendUint64(bits, math.Float64bits(float64(v)))
	}
	check(os.WriteFile(r.file(name+".f64"), bits, 0o644))
}

func (r *results) tell(name, format string, args ...any) {
	check(os.WriteFile(r.file(name+".txt"), fmt.Appendf(nil, format+"\n", args...), 0o644))
}

const length = 24 // predicted tokens per row: longer than short contexts and windows

// samples returns random samples of several lengths; some tokens are excluded from the loss.
func samples(seed uint64, n, vocab int) []data.Sample {
	rng := rand.New(rand.NewPCG(seed, 0))
	list := make([]data.Sample, n)
	for i := range list {
		ids := tokens(rng, 3+rng.IntN(length-1), vocab)
		var weights []float32
		for range ids[1:] {
			weights = append(weights, float32(rng.IntN(3)))
		}
		weights[0] = 1
		list[i] = sampleOf(ids, weights)
	}
	return list
}

// vocab reads the size from a tensor, because the API of hyper-parameters differs between commits.
func vocab(m *model.Model) int { return int(m.Weight("token_embd.weight").Shape()[1]) }

func tokens(rng *rand.Rand, n, vocab int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(rng.IntN(vocab))
	}
	return list
}

type loading struct {
	repack   int // for this many sequences; 0 keeps the matrices as stored
	writable bool
}

func load(path string, o loading) *model.Model {
	return must(model.Load(path, model.LoadOptions{NoMmap: o.writable, Repack: o.repack > 0, Sequences: o.repack}))
}

func must[T any](x T, err error) T {
	check(err)
	return x
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
