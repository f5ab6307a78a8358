package data

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goggml/ggml/llm/tokenizer"
)

// InspectOptions are [LoadOptions] and settings of additional checks. Cache, SkipBroken, HoldOut,
// HoldOutByRow and Packed are ignored.
type InspectOptions struct {
	LoadOptions
	Held    []string // sources of held-out data
	Samples int      // number of samples to return, evenly spaced
}

// An Inspection is the result of checking data before a run, with the vocabulary and chat template of
// a model.
type Inspection struct {
	Stats
	Files      []string
	IsText     bool
	Turns      int   // number of messages in conversations
	Duplicates int   // number of records equal to an earlier one
	Lengths    []int // predicted tokens of each sample, in order
	Findings   []Finding
	Samples    []InspectedSample
	Pairs      *PairInspection // of answers that a loss compares or judges; nil for others
}

// An InspectedSample is a sample with its index and its place, see [Dataset.Place].
type InspectedSample struct {
	Number int
	Place  string
	Sample
}

// Ruined reports whether there is a finding that ruins training and is not among the ignored names.
func (i *Inspection) Ruined(ignored ...string) bool {
	return slices.ContainsFunc(i.Findings, func(f Finding) bool { return f.Ruins && !slices.Contains(ignored, f.Name) })
}

// Inspect reads sources as [Load] does, and looks for what ruins runs. Broken records are findings,
// not errors. A source that cannot be read is an error.
func Inspect(ctx context.Context, t *tokenizer.Tokenizer, sources []string, o InspectOptions) (*Inspection, error) {
	splits, err := Expand(sources)
	if err != nil {
		return nil, err
	}
	x := &inspector{t: t, o: o, broken: &Broken{}, seen: map[recordHash]bool{}}
	x.Files = splits.Train
	if x.held, err = o.heldOut(ctx); err != nil {
		return nil, err
	}
	if x.IsText, err = isText(x.Files, o.Read.Readers); err != nil {
		return nil, err
	}
	d, err := x.read(ctx)
	hasNone := x.Stats.Examples > 0 && x.Stats.Samples == 0 // reported as a finding
	if err != nil && x.broken.Total() == 0 && !hasNone {
		return nil, err
	}
	if err == nil {
		defer d.Close()
		if err := x.keep(d); err != nil {
			return nil, err
		}
	}
	x.Turns = int(x.turns.Load())
	x.find(d)
	if hasNone && !x.Ruined() {
		x.Findings = append(x.Findings, Finding{noTraining, true, x.Stats.Examples, Warning{[]any{err.Error()}}})
	}
	return &x.Inspection, nil
}

// An inspector adds notes on examples to an encoder's notes.
type inspector struct {
	Inspection
	t       *tokenizer.Tokenizer
	o       InspectOptions
	encoder *Encoder
	broken  *Broken
	held    map[recordHash]bool
	seen    map[recordHash]bool
	turns   atomic.Int64
	answers answerCensus

	labelled [2]int // numbers of desirable and of other answers
	wantsBOS bool   // the model's own template writes BOS
}

// read converts the sources to samples.
func (x *inspector) read(ctx context.Context) (d *Dataset, err error) {
	loaded, prepare := versionsOf(x.Files), PrepareOptions{Length: x.o.Length, TooLong: x.o.TooLong, Sources: x.Files, SkipBroken: x.broken}
	if x.IsText {
		source, err := newTextSource(x.t, x.Files, loaded, x.o.LoadOptions)
		if err != nil {
			return nil, err
		}
		if d, x.Stats, err = source.prepare(ctx, prepare); err != nil {
			return nil, err
		}
		return d, x.readLines()
	}
	source, err := newRecordSource(x.t, x.Files, loaded, x.broken, x.o.LoadOptions)
	if err != nil {
		return nil, err
	}
	x.encoder, x.wantsBOS = source.encoder, x.writesBOS()
	examples := unchanged(source.examples(ctx), loaded)
	switch {
	case x.o.Pairs:
		d, x.Stats, err = PreparePairs(ctx, x.examples(examples), x.encodePair, prepare)
	case x.o.Labels:
		d, x.Stats, err = Prepare(ctx, x.examples(eachLabelled(examples)), x.encode, prepare)
	default:
		d, x.Stats, err = Prepare(ctx, x.examples(examples), x.encode, prepare)
	}
	if err == nil && (x.o.Pairs || x.o.Labels) {
		err = x.comparePairs(d)
	}
	return d, err
}

// writesBOS reports whether the model's template begins texts with BOS.
func (x *inspector) writesBOS() bool {
	own, err := ModelTemplate(tokenizer.ChatTemplateKey, x.t)
	if err != nil || x.t.BOS() == tokenizer.None {
		return false
	}
	o := RenderOptions(x.t, nil)
	r, err := own.Render(fewWords(), &o)
	return err == nil && strings.HasPrefix(r.Text, x.t.TokenText(x.t.BOS()))
}

// keep stores the lengths of all samples, and some samples.
func (x *inspector) keep(d *Dataset) error {
	n := d.Len()
	for i := range n {
		for place, to := d.places(i); place < to; place++ {
			x.Lengths = append(x.Lengths, max(0, d.samples.tokens(d.number(place))-1))
		}
	}
	most := min(x.o.Samples, n)
	for k := range most {
		number := k * n / most
		row, err := d.Row(number)
		if err != nil {
			return err
		}
		for side, s := range row {
			x.Samples = append(x.Samples, InspectedSample{number*len(row) + side, d.Place(s), s})
		}
	}
	return nil
}

// A recordHash is a hash of a record's words.
type recordHash [16]byte

func hashOf(what ...any) (h recordHash) {
	text, err := json.Marshal(what)
	if err != nil {
		return h
	}
	sum := sha256.Sum256(text)
	copy(h[:], sum[:])
	return h
}

// hashOfExample hashes the words of an example, independent of format and white space.
func hashOfExample(x *Example) recordHash {
	if x.Rejected != nil {
		chosen := *x
		chosen.Rejected = nil
		return hashOf(hashOfExample(&chosen), hashOfExample(x.Rejected))
	}
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if len(x.Messages) == 0 {
		return hashOf(words(x.Text), words(x.Prompt), words(x.Completion))
	}
	what := []any{string(x.Tools)}
	for _, m := range x.Messages {
		if what = append(what, m.Role(), words(m.Content()), words(m.Reasoning())); len(m.Calls()) > 0 {
			what = append(what, m) // includes their arguments
		}
	}
	return hashOf(what...)
}

// heldOut returns the hashes of held-out records; for text, of its long lines.
func (o *InspectOptions) heldOut(ctx context.Context) (map[recordHash]bool, error) {
	held := map[recordHash]bool{}
	if len(o.Held) == 0 {
		return held, nil
	}
	splits, err := Expand(o.Held)
	if err != nil {
		return nil, err
	}
	text, err := isText(splits.Train, o.Read.Readers)
	if err != nil {
		return nil, err
	}
	if text {
		return held, eachLine(splits.Train, func(line string, _ string, _ int) {
			if len(line) >= longLine {
				held[hashOf(line)] = true
			}
		})
	}
	read := o.Read
	read.SkipBroken, read.BytesRead, read.Pairs, read.Labels = &Broken{}, nil, o.Pairs, o.Labels
	examples := readFiles(ctx, splits.Train, read)
	if o.Labels {
		examples = eachLabelled(examples)
	}
	for x, err := range examples {
		if err != nil {
			return nil, err
		}
		held[hashOfExample(&x)] = true
	}
	return held, nil
}

// examples marks records that are repeated or also held out, and counts answers. It runs before
// encoding, where examples are in order.
func (x *inspector) examples(all iter.Seq2[Example, error]) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		for e, err := range all {
			if err == nil {
				h := hashOfExample(&e)
				if x.seen[h] {
					x.Duplicates++
				} else {
					x.answers.add(&e)
				}
				if x.seen[h] = true; x.held[h] {
					e.notes = append(e.notes, Note{Kind: HeldOutToo})
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// encode encodes an example, and adds notes to the encoder's.
func (x *inspector) encode(e Example) (Sample, error) {
	x.turns.Add(int64(len(e.Messages)))
	s, r, err := x.encoder.encodeRendered(e)
	if err != nil || len(s.Tokens) == 0 {
		return s, err
	}
	for _, n := range append(e.notes, x.notes(&e, s, r)...) {
		n.File, n.Line = e.File, e.Line
		s.Notes = append(s.Notes, n)
	}
	return s, nil
}

// Histogram counts lengths in at most n intervals of equal width, the first beginning at 0; n is
// limited to 1,000.
func Histogram(lengths []int, n int) (counts []int, width int) {
	if len(lengths) == 0 || n < 1 {
		return nil, 0
	}
	longest := max(0, slices.Max(lengths))
	width = longest/min(n, 1000) + 1
	counts = make([]int, longest/width+1)
	for _, length := range lengths {
		counts[max(0, length)/width]++
	}
	return counts, width
}
