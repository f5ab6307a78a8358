package train

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/goggml/ggml/llm/tokenizer"
)

// A Sample is a sequence of tokens of which each is to be predicted from those
// before it.
type Sample struct {
	Tokens  []int32   // the first token is not predicted
	Weights []float32 // of predicting Tokens[1:]; nil: 1 each
}

// Targets counts the tokens that are learned.
func (s Sample) Targets() int {
	if s.Weights == nil {
		return max(0, len(s.Tokens)-1)
	}
	n := 0
	for _, w := range s.Weights {
		if w != 0 {
			n++
		}
	}
	return n
}

// A Dataset is a list of samples of at most Length+1 tokens. It does not
// change, and is safe for concurrent use.
type Dataset struct {
	Length  int // predicted tokens of a full sample
	Samples []Sample
}

// Tokens counts the tokens that are learned in one epoch.
func (d *Dataset) Tokens() int {
	n := 0
	for _, s := range d.Samples {
		n += s.Targets()
	}
	return n
}

// TextOptions say how text becomes samples.
type TextOptions struct {
	Length int // predicted tokens of a sample
	// SampleStart cuts the text where it occurs, and a sample begins at each
	// cut; without it samples follow each other through the whole text.
	SampleStart        string
	IncludeSampleStart bool // keep the string itself in the samples
	// Overlapping begins a sample at every cut that is as long as possible,
	// across the following cuts.
	Overlapping bool
	// FillWithNext appends the samples that follow to one that is too short.
	FillWithNext bool
	SeparateBOS  bool // put BOS before each sample that begins at a cut
	SeparateEOS  bool // put EOS after each
}

// FromText tokenises text into samples.
func FromText(t *tokenizer.Tokenizer, text string, o TextOptions) (*Dataset, error) {
	if o.Length < 1 {
		return nil, fmt.Errorf("samples of %d tokens are empty", o.Length)
	}
	parts := []string{text}
	if o.SampleStart != "" {
		parts = cut(text, o.SampleStart, o.IncludeSampleStart)
	}
	var encoded [][]int32
	for i, part := range parts {
		ids := t.Encode(part, tokenizer.EncodeOptions{ParseSpecial: true})
		encoded = append(encoded, separate(t, ids, o, i == 0))
	}
	d := &Dataset{Length: o.Length}
	for i := range encoded {
		d.addPart(encoded, i, o)
	}
	if len(d.Samples) == 0 {
		return nil, fmt.Errorf("the text has no sample of at least 2 tokens")
	}
	return d, nil
}

// cut splits text where the marker begins; text before the first is dropped.
func cut(text, marker string, keep bool) []string {
	var parts []string
	for i, part := range strings.Split(text, marker) {
		if i == 0 {
			continue
		}
		if keep {
			part = marker + part
		}
		if part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func separate(t *tokenizer.Tokenizer, ids []int32, o TextOptions, first bool) []int32 {
	bos := o.SampleStart != "" && o.SeparateBOS || first && t.AddsBOS()
	var out []int32
	if bos && t.BOS() >= 0 {
		out = append(out, t.BOS())
	}
	out = append(out, ids...)
	if o.SampleStart != "" && o.SeparateEOS && t.EOS() >= 0 {
		out = append(out, t.EOS())
	}
	return out
}

// addPart makes the samples that begin in part i.
func (d *Dataset) addPart(parts [][]int32, i int, o TextOptions) {
	ids := parts[i]
	need := o.Length + 1
	for j := i + 1; (o.Overlapping || o.FillWithNext) && len(ids) < need && j < len(parts); j++ {
		ids = append(ids[:len(ids):len(ids)], parts[j]...)
	}
	for from := 0; from+1 < len(ids); from += o.Length {
		d.Samples = append(d.Samples, Sample{Tokens: ids[from:min(len(ids), from+need)]})
		if o.Overlapping && from == 0 && len(parts[i]) <= need {
			return
		}
	}
}

// Limit returns a data set of at most n samples, spread evenly.
func (d *Dataset) Limit(n int) *Dataset {
	if n <= 0 || len(d.Samples) <= n {
		return d
	}
	few := &Dataset{Length: d.Length}
	for i := range n {
		few.Samples = append(few.Samples, d.Samples[i*len(d.Samples)/n])
	}
	return few
}

// order visits all samples in each epoch, in an order that depends on the seed
// and the epoch alone.
type order struct {
	seed  uint64
	n     int
	epoch int
	perm  []int
}

// at gives the sample at a position that counts on through the epochs.
func (o *order) at(position int) int {
	epoch := position / o.n
	if o.perm == nil || epoch != o.epoch {
		o.epoch = epoch
		o.perm = rand.New(rand.NewPCG(o.seed, uint64(epoch)+1)).Perm(o.n)
	}
	return o.perm[position%o.n]
}
