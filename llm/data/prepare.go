package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/limits"
)

// LongSamples says how to treat a sample of more than Length predicted tokens.
type LongSamples string

const (
	CutLong   LongSamples = "cut"   // it ends there; the zero value is this one, too
	SplitLong LongSamples = "split" // it becomes several samples, each beginning with the last token of the one before
	DropLong  LongSamples = "drop"  // it is left out
)

// PrepareOptions say how examples become a data set.
type PrepareOptions struct {
	Length  int // predicted tokens of a row
	TooLong LongSamples

	// Cache is a folder, made when it is needed, that keeps the tokens for the next time.
	// "" keeps them in a file without a name, which is gone with the data set. Files of
	// other keys stay in the folder until somebody removes them.
	Cache string
	// Key identifies what the samples are made of in the cache: it changes with every byte of the
	// sources ([HashFiles]), the tokenizer, the template and all options of encode. PrepareOptions
	// are hashed in any case. It includes the names of the sources if messages name the first
	// faults and notes.
	Key string
	// SkipBroken counts the broken records of these examples alone, as reading and encoding them
	// does ([ReadOptions], [EncoderOptions]). The cache stores its counts; if Prepare finds them
	// there and reads no example, it adds them. Of each first fault the cache stores all but the
	// cause. It may be nil.
	SkipBroken *Broken

	Progress func(Stats)          // called after each example by the goroutine of Prepare; may be nil
	Warn     func(message string) // of a cache that is of no use, or that one waits for; may be nil
}

// Stats count what became of examples.
type Stats struct {
	Examples int // that were read
	Samples  int // of the data set
	Tokens   int // predicted tokens of them
	Targets  int // those that are trained

	// Examples of more than Length predicted tokens, by what became of them.
	Cut, Split, Dropped int
	Lost                int // those that were cut and have lost more than half of what is trained of them
	Longest             int // predicted tokens of the longest example
	// Empty counts examples, and parts of split ones, that are left out because no token
	// of them is trained.
	Empty int

	Notes []NoteCount // on the examples, in the order of the first of each

	FromCache bool // nothing was encoded; the counts are of when it was
}

// storedStats are the numbers of a file.
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

// Prepare encodes examples on all processors, and keeps the samples, in the order of the
// examples, in a file that is mapped: memory holds a few bytes of each. With a Cache
// whose file has the same key already, examples are not read at all. encode leaves an
// example out by a sample without tokens.
//
// The first error of examples or encode ends it, and is returned as it is; where one of them
// panics, or ends its goroutine by [runtime.Goexit], the error says so. encode runs in
// several goroutines at once. Processes, or goroutines, that prepare the same at the same
// time wait for the first, and a process that is killed leaves nothing but a file that
// the next one removes. Close the data set when it is no longer used.
func Prepare[T any](ctx context.Context, examples iter.Seq2[T, error], encode func(T) (Sample, error), o PrepareOptions) (*Dataset, Stats, error) {
	if err := o.complete(); err != nil {
		return nil, Stats{}, err
	}
	if ctx == nil {
		return nil, Stats{}, errNoContext
	}
	if examples == nil || encode == nil {
		return nil, Stats{}, errors.New("there are no examples, or there is no function that encodes them: it is nil")
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
	return &Dataset{Length: o.Length, samples: file.tokenFile}, stats, nil
}

// nothing is the error of no sample at all.
func (o *PrepareOptions) nothing(s Stats) error {
	examples := counted.Of(s.Examples, "example")
	if n := o.SkipBroken.Total(); n > 0 {
		return fmt.Errorf("no token of %s is trained; %s, the first: %w", examples, skipped(n), o.SkipBroken.Counts()[0].First)
	}
	return fmt.Errorf("no token of %s is trained; check the data, its masks, and what is done with long ones", examples)
}

func (o *PrepareOptions) complete() error {
	o.TooLong = cmp.Or(o.TooLong, CutLong)
	switch {
	case o.Length < 1:
		return noLength(o.Length)
	case o.TooLong != CutLong && o.TooLong != SplitLong && o.TooLong != DropLong:
		return fmt.Errorf("what is too long cannot be %q; it can be cut, split or dropped", o.TooLong)
	case o.Cache != "" && o.Key == "":
		return errors.New("a cache needs a key of what the samples are made of")
	}
	if o.Progress == nil {
		o.Progress = func(Stats) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return nil
}

// noLength is the error of options whose Length nobody has set.
func noLength(n int) error {
	return fmt.Errorf("the field Length is %d; set it to the most predicted tokens of a sample, such as the context of the model", n)
}

// A builder makes samples of at most Length predicted tokens, and counts.
type builder struct {
	w       *tokenWriter
	options PrepareOptions
	stats   Stats
}

// add takes the sample of the next example.
func (b *builder) add(s Sample) error {
	b.stats.Examples++
	b.stats.Longest = max(b.stats.Longest, s.Predicted())
	b.stats.Notes = addNotes(b.stats.Notes, s.Notes)
	defer func() { b.options.Progress(b.stats) }()
	length := b.options.Length
	if s.Predicted() <= length {
		return b.write(s)
	}
	switch b.options.TooLong {
	case DropLong:
		b.stats.Dropped++
		return nil
	case CutLong:
		b.stats.Cut++
		kept := s.part(0, length)
		if 2*kept.Targets() < s.Targets() {
			b.stats.Lost++
		}
		return b.write(kept)
	}
	b.stats.Split++
	for from := 0; from < s.Predicted(); from += length {
		if err := b.write(s.part(from, length)); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) write(s Sample) error {
	targets := s.Targets()
	if targets == 0 {
		b.stats.Empty++
		return nil
	}
	b.stats.Samples++
	b.stats.Tokens += s.Predicted()
	b.stats.Targets += targets
	return b.w.add(s)
}

// An encoding is an example on its way through encodeAll.
type encoding[T any] struct {
	example T
	sample  Sample
	err     error
	done    chan struct{} // closed when sample, or err, is there
}

// encodeAll gives the samples of all examples to add, in their order. add is called by the
// goroutine of the caller.
func encodeAll[T any](ctx context.Context, examples iter.Seq2[T, error], encode func(T) (Sample, error), add func(Sample) error) error {
	workers := limits.Processors()
	// Examples in progress are in memory: a few for each worker.
	work, inOrder := make(chan *encoding[T]), make(chan *encoding[T], 4*workers)
	var group errgroup.Group
	defer group.Wait() // nothing to report: attempt returns the errors in order
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // also when add panics
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
			if err != nil { // it is returned after the errors of the examples before it
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
					if e.sample, err = encode(e.example); err == nil {
						err = e.sample.check(len(e.sample.Tokens), 1<<31-1)
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

// attempt runs a function of the caller's in a goroutine of ours, and gives its error to end.
// A panic is one too, which nobody else could recover, and so is the end of the goroutine.
func attempt(what string, f func() error, end func(error)) {
	err := fmt.Errorf("%s ended its goroutine", what) // unless f returns
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %w", what, &ggml.PanicError{Value: p, Stack: debug.Stack()})
		}
		end(err)
	}()
	err = f()
}

func addInOrder[T any](ctx context.Context, inOrder <-chan *encoding[T], add func(Sample) error) error {
	for e := range inOrder {
		select {
		case <-e.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if e.err != nil {
			return e.err
		}
		if err := add(e.sample); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// send reports whether the value was sent before ctx ended.
func send[T any](ctx context.Context, to chan<- T, value T) bool {
	select {
	case to <- value:
		return true
	case <-ctx.Done():
		return false
	}
}
