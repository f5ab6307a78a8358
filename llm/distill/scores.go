package distill

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/recordfile"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// Options are the settings of [Open].
type Options struct {
	// Folder keeps the file of scores, created if needed; "" stands for a file that is deleted with the scores.
	Folder string
	// Key identifies the teacher: it must change with every byte of its model and adapters, and with what else changes
	// its logits, such as what Own returns. The data, TopK, Temperature, Vocab and the aligned vocabulary are hashed in any
	// case.
	Key string
	ScorerOptions
	// Names are the names of the teacher in samples, "" of the first teacher. The scores are of the samples that have one of
	// them; nil stands for all samples.
	Names []string

	Progress func(done, total int) // called after each sample, with numbers of tokens; may be nil
	Warn     func(message string)  // called if the file is unusable or locked by another process; may be nil
}

// Scores are a teacher's probabilities for samples, in a file. They are safe for concurrent use.
type Scores struct {
	file      *recordfile.File
	topK      int
	fromCache int // samples that the file had before
}

const formatVersion = 2

// Open returns the scores of all samples of data sets. If Folder has the complete file, it is read. Otherwise teacher
// returns a scorer, and each sample's record is written to a file beside, which takes the final name once it is
// complete. If the process is killed meanwhile, the next Open continues after the last whole record, and the file is the
// same to the byte. If several processes open the same scores, the others wait for the first.
func Open(ctx context.Context, teacher func() (*Scorer, error), o Options, sets ...*data.Dataset) (*Scores, error) {
	if teacher == nil || ctx == nil {
		return nil, errors.New("the teacher or the context.Context is nil")
	}
	if o.Alignment != nil {
		if err := o.Alignment.check(); err != nil {
			return nil, err
		}
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	key, path := o.key(sets), ""
	if o.Folder != "" {
		path = filepath.Join(o.Folder, fmt.Sprintf("%x.taught", key))
	}
	file, err := recordfile.Open(ctx, recordfile.Options{Path: path, Key: key, Warn: o.Warn})
	if err != nil {
		return nil, fmt.Errorf("the teacher's scores cannot be written: %w", err)
	}
	s := &Scores{file: file, topK: o.TopK, fromCache: file.Len()}
	if err := s.fill(ctx, teacher, o, sets); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// key hashes the settings and the data.
func (o *Options) key(sets []*data.Dataset) recordfile.Key {
	h := sha256.New()
	fmt.Fprintf(h, "scores %d %q %d %v %d", formatVersion, o.Key, o.TopK, o.Temperature, o.Vocab)
	if a := o.Alignment; a != nil {
		fmt.Fprintf(h, " aligned %q", a.student.Config().Tokens)
	}
	for _, d := range sets {
		fmt.Fprintf(h, " %s", d.Fingerprint())
	}
	if o.Names != nil {
		fmt.Fprintf(h, " of %q", o.Names)
	}
	return recordfile.Key(h.Sum(nil)[:16])
}

// fill writes the records that the file lacks; it asks for the teacher with the first of them.
func (s *Scores) fill(ctx context.Context, teacher func() (*Scorer, error), o Options, sets []*data.Dataset) error {
	if s.file.Complete() {
		return nil
	}
	done, total := 0, 0
	err := o.eachSample(sets, func(x data.Sample) error {
		total += x.Predicted()
		return nil
	})
	if err != nil {
		return err
	}
	var scorer *Scorer
	err = o.eachSample(sets, func(x data.Sample) error {
		done += x.Predicted()
		if s.file.Has(x.Hash()) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var err error
		if scorer == nil {
			if scorer, err = teacher(); err != nil {
				return err
			}
			if scorer != nil && scorer.options.TopK != o.TopK {
				return fmt.Errorf("the scorer has %d tokens for each trained one, and the scores are to have %d; give both the same options", scorer.options.TopK, o.TopK)
			}
		}
		t, err := scorer.Score(ctx, x)
		if err != nil {
			return err
		}
		if err := s.file.Append(x.Hash(), encodeRecord(t)); err != nil {
			return writeError(err)
		}
		o.Progress(done, total)
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.file.Finish(); err != nil {
		return writeError(err)
	}
	return nil
}

func writeError(err error) error {
	return fmt.Errorf("the teacher's scores cannot be written: %w; free some space, or name another folder for caches", filelink.SystemError(err))
}

// eachSample calls f for the samples that the teacher scores.
func (o *Options) eachSample(sets []*data.Dataset, f func(x data.Sample) error) error {
	return eachSample(sets, func(x data.Sample) error {
		if o.Names != nil && !slices.Contains(o.Names, x.Teacher) {
			return nil
		}
		return f(x)
	})
}

// eachSample calls f for the samples of data sets that train a token.
func eachSample(sets []*data.Dataset, f func(x data.Sample) error) error {
	for _, d := range sets {
		for i := range d.Len() {
			row, err := d.Row(i)
			if err != nil {
				return err
			}
			for _, x := range row {
				if x.Targets() == 0 {
					continue
				}
				if err := f(x); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Of returns what the teacher says of a sample of the data sets.
func (s *Scores) Of(x data.Sample) (train.Taught, error) {
	if s == nil || s.file == nil {
		return train.Taught{}, errors.New("the teacher's scores are nil or a zero value; Open makes them")
	}
	raw, has, err := s.file.Read(x.Hash())
	switch {
	case err != nil:
		return train.Taught{}, fmt.Errorf("the teacher's scores: %w", err)
	case !has:
		return train.Taught{}, fmt.Errorf("the teacher has not scored a sample of %s", counted.Of(len(x.Tokens), "token"))
	}
	return decodeRecord(raw, s.topK)
}

// TopK returns the number of tokens for each trained token.
func (s *Scores) TopK() int {
	if s == nil {
		return 0
	}
	return s.topK
}

// FromCache returns the number of samples whose scores were in the file before.
func (s *Scores) FromCache() int {
	if s == nil {
		return 0
	}
	return s.fromCache
}

// Len returns the number of different samples.
func (s *Scores) Len() int {
	if s == nil || s.file == nil {
		return 0
	}
	return s.file.Len()
}

// Close closes the file.
func (s *Scores) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	return s.file.Close()
}
