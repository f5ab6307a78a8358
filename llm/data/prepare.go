package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/limits"
)

// LongSamples selects how to treat a sample of more than Length predicted tokens.
type LongSamples string

const (
	CutLong   LongSamples = "cut"   // truncate it; "" means this too
	SplitLong LongSamples = "split" // split it; each part begins with the last token of the previous one
	DropLong  LongSamples = "drop"  // omit it
)

// PrepareOptions are the settings of Prepare.
type PrepareOptions struct {
	Length  int // maximum number of predicted tokens per row
	TooLong LongSamples
	Sources []string // names of the files that the samples' origins number; may be nil

	// Cache is a folder for token files, created if needed, in which later calls find the tokens. "" uses
	// an unnamed file that is deleted with the data set. Nothing deletes files of other keys from the
	// folder.
	Cache string
	// Key identifies the samples in the cache: it must change with every byte of the sources
	// ([HashFiles]), the tokenizer, the template and all options of encode. PrepareOptions are hashed in
	// any case. It must include the names of the sources if messages name the first faults and notes.
	Key string
	// SkipBroken is the Broken in which reading and encoding these examples, and no others, count faults
	// ([ReadOptions], [EncoderOptions]). The cache stores its counts, with each first fault except its
	// cause. If Prepare finds the cached file and reads no example, it adds these counts. It may be nil.
	SkipBroken *Broken

	Progress func(Stats)          // called after each example, by the goroutine that calls Prepare; may be nil
	Warn     func(message string) // called if the cache is unusable or locked by another process; may be nil
}

// Stats are statistics of examples and their samples.
type Stats struct {
	Examples int // number of examples read
	Samples  int // number of samples in the data set
	Tokens   int // number of their predicted tokens
	Targets  int // number of trained tokens

	// Numbers of examples of more than Length predicted tokens, by what happened to them.
	Cut, Split, Dropped int
	Lost                int // cut examples that lost more than half of their trained tokens
	Longest             int // predicted tokens of the longest example
	// Empty is the number of examples, and parts of split examples, omitted because no token of them is
	// trained.
	Empty int

	Notes []NoteCount // notes on the examples, in order of first occurrence

	FromCache bool // read from the cache, with the counts of the original encoding
}

// storedStats are the numbers in a token file.
type storedStats struct{ Examples, Samples, Tokens, Targets, Cut, Split, Dropped, Lost, Longest, Empty uint64 }

func (s Stats) stored() storedStats {
	return storedStats{
		uint64(s.Examples), uint64(s.Samples), uint64(s.Tokens), uint64(s.Targets),
		uint64(s.Cut), uint64(s.Split), uint64(s.Dropped), uint64(s.Lost), uint64(s.Longest), uint64(s.Empty),
	}
}

func (s storedStats) stats() Stats {
	return Stats{
		Examples: int(s.Examples), Samples: int(s.Samples), Tokens: int(s.Tokens), Targets: int(s.Targets),
		Cut: int(s.Cut), Split: int(s.Split), Dropped: int(s.Dropped), Lost: int(s.Lost), Longest: int(s.Longest), Empty: int(s.Empty), FromCache: true,
	}
}

// Prepare encodes examples on all processors and writes the samples, in the order of the examples, to
// a mapped file: memory holds a few bytes per sample. If Cache has a file with the same key, it does
// not read the examples at all. encode omits an example by returning a sample without tokens.
//
// Prepare returns the first error of examples or encode as it is. If one of them panics, or ends its
// goroutine by [runtime.Goexit], it returns an error that says so. encode runs in several goroutines
// at once. If several processes or goroutines prepare the same data at the same time, the others wait
// for the first. A killed process leaves only a file that a later one removes. Close the data set when
// it is no longer used.
func Prepare[T any](ctx context.Context, examples iter.Seq2[T, error], encode func(T) (Sample, error), o PrepareOptions) (*Dataset, Stats, error) {
	if encode == nil {
		return nil, Stats{}, errNoExamples
	}
	return prepareRows(ctx, examples, func(x T) (Row, error) {
		s, err := encode(x)
		return Row{s}, err
	}, 1, o)
}

// PreparePairs is like Prepare for rows of two samples, which a loss compares: what [Encoder.EncodePair] returns, or nil
// to omit the example. Each side has at most Length predicted tokens, and the rows of the data set twice as many.
// A pair is omitted, and counted in Stats.Empty, if cutting leaves a side without a trained token, or both sides with the
// same tokens.
func PreparePairs[T any](ctx context.Context, examples iter.Seq2[T, error], encode func(T) (Row, error), o PrepareOptions) (*Dataset, Stats, error) {
	switch {
	case encode == nil:
		return nil, Stats{}, errNoExamples
	case o.TooLong == SplitLong:
		return nil, Stats{}, errors.New("a pair of answers cannot be split; long ones can be cut or dropped")
	}
	return prepareRows(ctx, examples, encode, 2, o)
}

var errNoExamples = errors.New("the examples, or the function that encodes them, are nil")

// prepareRows prepares rows of `each` samples.
func prepareRows[T any](ctx context.Context, examples iter.Seq2[T, error], encode func(T) (Row, error), each int, o PrepareOptions) (*Dataset, Stats, error) {
	if err := o.complete(); err != nil {
		return nil, Stats{}, err
	}
	if ctx == nil {
		return nil, Stats{}, errNoContext
	}
	if examples == nil {
		return nil, Stats{}, errNoExamples
	}
	file, err := o.tokenFile(ctx, func(w *tokenWriter) (Stats, error) {
		b := builder{w: w, options: o}
		err := encodeAll(ctx, examples, encode, b.add)
		w.report = report{o.SkipBroken.Counts(), b.stats.Notes}
		return b.stats, err
	})
	if err != nil {
		return nil, Stats{}, err
	}
	stats := file.stats
	if stats.Samples == 0 {
		file.close()
		return nil, stats, o.nothing(stats)
	}
	d := &Dataset{Length: each * o.Length, samples: file.tokenFile, sources: o.Sources}
	if each > 1 {
		for at := 0; at <= file.len(); at += each {
			d.starts = append(d.starts, uint32(at))
		}
	}
	return d, stats, nil
}

// nothing returns the error for having no samples.
func (o *PrepareOptions) nothing(s Stats) error {
	examples := counted.Of(s.Examples, "example")
	if n := o.SkipBroken.Total(); n > 0 {
		return fmt.Errorf("no token of %s is trained; %s, the first: %w", examples, skipped(n), o.SkipBroken.Counts()[0].First)
	}
	return fmt.Errorf("no token of %s is trained; check the data, its masks, and the handling of long records", examples)
}

func (o *PrepareOptions) complete() error {
	o.TooLong = cmp.Or(o.TooLong, CutLong)
	switch {
	case o.Length < 1:
		return noLength(o.Length)
	case o.TooLong != CutLong && o.TooLong != SplitLong && o.TooLong != DropLong:
		return fmt.Errorf("unknown handling of long samples %q; they can be cut, split or dropped", o.TooLong)
	case o.Cache != "" && o.Key == "":
		return errors.New("a token cache needs a key that identifies the data and its encoding")
	}
	if o.Progress == nil {
		o.Progress = func(Stats) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return nil
}

// noLength returns the error for a Length that is not set.
func noLength(n int) error {
	return fmt.Errorf("the field Length is %d; set it to the most predicted tokens of a sample, such as the context of the model", n)
}

// A builder makes samples of at most Length predicted tokens, and counts them.
type builder struct {
	w       *tokenWriter
	options PrepareOptions
	stats   Stats
}

// add adds the row of the next example: one sample, or the sides of a pair.
func (b *builder) add(row Row) error {
	b.stats.Examples++
	var notes []Note
	isLong, length := false, b.options.Length
	for _, s := range row {
		b.stats.Longest = max(b.stats.Longest, s.Predicted())
		notes, isLong = append(notes, s.Notes...), isLong || s.Predicted() > length
	}
	b.stats.Notes = addNotes(b.stats.Notes, notes)
	defer func() { b.options.Progress(b.stats) }()
	if !isLong {
		return b.write(row)
	}
	switch b.options.TooLong {
	case DropLong:
		b.stats.Dropped++
		return nil
	case CutLong:
		b.stats.Cut++
		kept, isLost := make(Row, len(row)), false
		for i, s := range row {
			kept[i] = s.part(0, length)
			isLost = isLost || 2*kept[i].Targets() < s.Targets()
		}
		if isLost {
			b.stats.Lost++
		}
		return b.write(kept)
	}
	b.stats.Split++
	for s, from := row[0], 0; from < s.Predicted(); from += length {
		if err := b.write(Row{s.part(from, length)}); err != nil {
			return err
		}
	}
	return nil
}

// write writes a row, unless a sample of it has no trained token, or two are equal.
func (b *builder) write(row Row) error {
	isEmpty := len(row) == 0 || len(row) == 2 && slices.Equal(row[0].Tokens, row[1].Tokens)
	for _, s := range row {
		isEmpty = isEmpty || s.Targets() == 0
	}
	if isEmpty {
		b.stats.Empty++
		return nil
	}
	for _, s := range row {
		b.stats.Samples++
		b.stats.Tokens += s.Predicted()
		b.stats.Targets += s.Targets()
		if err := b.w.add(s); err != nil {
			return err
		}
	}
	return nil
}

// An encoding is an example in progress in encodeAll.
type encoding[T any] struct {
	example T
	row     Row
	err     error
	done    chan struct{} // closed when row or err is set
}

// encodeAll calls add for the rows of all examples, in order, in the caller's goroutine.
func encodeAll[T any](ctx context.Context, examples iter.Seq2[T, error], encode func(T) (Row, error), add func(Row) error) error {
	workers := limits.Processors()
	// Only examples in progress are in memory: a few per worker.
	work, inOrder := make(chan *encoding[T]), make(chan *encoding[T], 4*workers)
	var group errgroup.Group
	defer group.Wait() // no error here: attempt returns errors in order
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also if add panics
	group.Go(func() error {
		attempt("the sequence of examples", func() error {
			for example, err := range examples {
				if err != nil {
					return err
				}
				e := &encoding[T]{example: example, done: make(chan struct{})}
				if !send(ctx, inOrder, e) || !send(ctx, work, e) {
					return nil
				}
			}
			return nil
		}, func(err error) {
			if err != nil { // returned after errors of earlier examples
				last := &encoding[T]{err: err, done: make(chan struct{})}
				close(last.done)
				send(ctx, inOrder, last)
			}
			close(work)
			close(inOrder)
		})
		return nil
	})
	for range workers {
		group.Go(func() error {
			for e := range work {
				attempt("the function that encodes an example", func() (err error) {
					e.row, err = encode(e.example)
					for i := 0; err == nil && i < len(e.row); i++ {
						err = e.row[i].check(len(e.row[i].Tokens), 1<<31-1)
					}
					return err
				}, func(err error) {
					e.err = err
					close(e.done)
				})
			}
			return nil
		})
	}
	return addInOrder(ctx, inOrder, add)
}

// attempt runs a caller's function in a goroutine of this package, and passes its error to end. A
// panic, which the caller could not recover, and the end of the goroutine are errors too.
func attempt(what string, f func() error, end func(error)) {
	err := fmt.Errorf("%s ended its goroutine", what) // replaced if f returns
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %w", what, &ggml.PanicError{Value: p, Stack: debug.Stack()})
		}
		end(err)
	}()
	err = f()
}

func addInOrder[T any](ctx context.Context, inOrder <-chan *encoding[T], add func(Row) error) error {
	for e := range inOrder {
		select {
		case <-e.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.err != nil {
			return e.err
		}
		if err := add(e.row); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// send sends a value, and reports whether it did so before ctx ended.
func send[T any](ctx context.Context, to chan<- T, value T) bool {
	select {
	case to <- value:
		return true
	case <-ctx.Done():
		return false
	}
}
