package preference

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"github.com/goggml/ggml/internal/recordfile"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/train"
)

// A Reference has the log-probabilities of answers by the model before training, or by another adapter. The zero
// value has none. It is safe for concurrent use.
type Reference struct {
	mu       sync.RWMutex
	logProbs map[recordfile.Key]float64 // by the hash of the sample
}

// ReferenceOptions say how a [Reference] computes log-probabilities.
type ReferenceOptions struct {
	// Evaluator computes. It should have the compute type of the steps, so that rounding cancels out.
	Evaluator *train.Evaluator
	Adapters  model.Adapters // nil for the model alone
	// Folder keeps the log-probabilities in a file, created if needed; "" keeps none. Only rank 0 of a group uses it.
	Folder string
	// Key identifies what changes the log-probabilities beside the data: every byte of the model and the adapters, and the
	// compute type. It is required with Folder.
	Key string

	Progress func(done, total int) // called with numbers of predicted tokens while they are computed; may be nil
	Warn     func(message string)  // called if the file is damaged, or another process writes it; may be nil
}

// Add computes the log-probabilities of all samples of a data set, which take 32 bytes of memory each, or reads those
// that Folder has; known is their number. If the process is killed, the next Add continues, with the same results to the
// byte.
func (r *Reference) Add(ctx context.Context, d *data.Dataset, o ReferenceOptions) (known int, err error) {
	switch {
	case r == nil:
		return 0, errors.New("the reference is nil")
	case ctx == nil:
		return 0, errors.New("the context.Context is nil")
	case o.Folder != "" && o.Key == "":
		return 0, errors.New("a cache of log-probabilities needs a key that identifies the model")
	}
	a := &adding{o: o, d: d, group: o.Evaluator.Group()}
	if known, err = a.begin(ctx); err == nil {
		err = a.compute(ctx)
	}
	if err = errors.Join(err, a.file.Close()); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logProbs == nil {
		r.logProbs = map[recordfile.Key]float64{}
	}
	for i, key := range a.keys {
		r.logProbs[key] = a.logProbs[i]
	}
	return known, nil
}

// An adding is a call of Add.
type adding struct {
	o        ReferenceOptions
	d        *data.Dataset
	group    parallel.Group
	file     *recordfile.File // of rank 0; nil without a folder
	firsts   []int            // number of each row's first sample
	keys     []recordfile.Key // of the samples
	logProbs []float64
	known    []float64 // 1 for each log-probability that is known
}

// begin opens the file, and shares its log-probabilities with the group.
func (a *adding) begin(ctx context.Context) (known int, err error) {
	err = a.read(ctx)
	n := len(a.keys)
	both := append(slices.Clone(a.logProbs), a.known...)
	if err := parallel.AgreeOn(ctx, a.group, err, both, parallel.Shared{Name: "the number of samples", Value: n}); err != nil {
		return 0, err
	}
	a.logProbs, a.known = both[:n:n], both[n:]
	for _, x := range a.known {
		known += int(x)
	}
	return known, nil
}

// read reads the keys of the samples, and the file.
func (a *adding) read(ctx context.Context) error {
	for i := range a.d.Len() {
		row, err := a.d.Row(i)
		if err != nil {
			return err
		}
		a.firsts = append(a.firsts, len(a.keys))
		for _, s := range row {
			a.keys = append(a.keys, s.Hash())
		}
	}
	a.logProbs, a.known = make([]float64, len(a.keys)), make([]float64, len(a.keys))
	if a.o.Folder == "" || a.group.Rank() != 0 {
		return nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "log-probabilities 2 %q %s", a.o.Key, a.d.Fingerprint())
	key := recordfile.Key(h.Sum(nil)[:16])
	path := filepath.Join(a.o.Folder, fmt.Sprintf("%x.logprobs", key))
	var err error
	if a.file, err = recordfile.Open(ctx, recordfile.Options{Path: path, Key: key, Warn: a.o.Warn}); err != nil {
		return writeError(err)
	}
	for i, key := range a.keys {
		body, has, err := a.file.Read(key)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if has && len(body) == 8 {
			a.logProbs[i], a.known[i] = math.Float64frombits(binary.LittleEndian.Uint64(body)), 1
		}
	}
	return nil
}

func writeError(err error) error {
	return fmt.Errorf("the log-probabilities of the reference cannot be kept: %w; free some space, or name another folder for caches", err)
}

// partTokens is about the number of tokens that are computed between two writes. A part that is not completely known is
// computed anew, so that its results do not depend on where an earlier process was killed.
var partTokens = 1 << 13

// compute computes the rows that are not known, the longest first, part by part.
func (a *adding) compute(ctx context.Context) error {
	order := make([]int, a.d.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return a.d.Predicted(y) - a.d.Predicted(x) })
	for done := 0; len(order) > 0; {
		n, tokens := 0, 0
		for n < len(order) && tokens < partTokens {
			tokens += a.d.Predicted(order[n])
			n++
		}
		if !a.knows(order[:n]) {
			if err := parallel.Agree(ctx, a.group, a.part(ctx, order[:n]), nil); err != nil {
				return err
			}
			if a.o.Progress != nil {
				a.o.Progress(done+tokens, a.d.NumTokens())
			}
		}
		order, done = order[n:], done+tokens
	}
	if a.file == nil {
		return nil
	}
	if err := a.file.Finish(); err != nil {
		return writeError(err)
	}
	return nil
}

func (a *adding) knows(rows []int) bool {
	for _, row := range rows {
		for k := range a.d.SamplesIn(row) {
			if a.known[a.firsts[row]+k] == 0 {
				return false
			}
		}
	}
	return true
}

// part computes rows, and adds the samples that the file lacks.
func (a *adding) part(ctx context.Context, rows []int) error {
	sums, err := a.o.Evaluator.LogProbs(ctx, a.o.Adapters, a.d, rows...)
	if err != nil {
		return err
	}
	for i, row := range rows {
		for k, x := range sums[i] {
			n := a.firsts[row] + k
			a.logProbs[n] = x
			if a.file == nil {
				continue
			}
			if a.file.Has(a.keys[n]) {
				continue
			}
			if err := a.file.Append(a.keys[n], binary.LittleEndian.AppendUint64(nil, math.Float64bits(x))); err != nil {
				return writeError(err)
			}
		}
	}
	return nil
}

// logProb returns the log-probability of a sample; NaN if it was not added.
func (r *Reference) logProb(s data.Sample) float64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if p, known := r.logProbs[s.Hash()]; known {
		return p
	}
	return math.NaN()
}
