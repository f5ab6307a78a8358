package distill

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/internal/filelock"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// Options are the settings of [Open].
type Options struct {
	// Folder keeps the file of scores, created if needed; "" stands for a file that is deleted with the scores.
	Folder string
	// Key identifies the teacher: it must change with every byte of its model and adapters, and with what else changes
	// its logits. The data, TopK, Temperature and Vocab are hashed in any case.
	Key string
	ScorerOptions

	Progress func(done, total int) // called after each sample, with numbers of tokens; may be nil
	Warn     func(message string)  // called if the file is unusable or locked by another process; may be nil
}

// Scores are a teacher's probabilities for samples, in a file. They are safe for concurrent use.
type Scores struct {
	file      *os.File
	topK      int
	records   map[sampleKey]place
	fromCache int // samples that the file had before
}

// A sampleKey is a hash of the tokens of a sample, and of which are trained.
type sampleKey [16]byte

// A place is where a record lies in the file.
type place struct{ at, size int64 }

const (
	suffix        = ".taught"
	pendingSuffix = ".pending"
	pollLock      = 100 * time.Millisecond
)

// Open returns the scores of all samples of data sets. If Folder has the complete file, it is read. Otherwise teacher
// returns a scorer, and each sample's record is written to a file beside, which takes the final name once it is
// complete. If the process is killed meanwhile, the next Open continues after the last whole record, and the file is the
// same to the byte. If several processes open the same scores, the others wait for the first.
func Open(ctx context.Context, teacher func() (*Scorer, error), o Options, sets ...*data.Dataset) (*Scores, error) {
	if teacher == nil || ctx == nil {
		return nil, errors.New("the teacher or the context.Context is nil")
	}
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	w := writer{options: o, teacher: teacher, key: o.key(sets)}
	for _, d := range sets {
		w.total += d.NumTokens()
	}
	if o.Folder == "" {
		file, err := os.CreateTemp("", "taught-*")
		if err != nil {
			return nil, fmt.Errorf("the teacher's scores need a temporary file: %w; set TMPDIR, or name a folder for caches", err)
		}
		os.Remove(file.Name()) // on systems that can remove an open file
		return w.fill(ctx, file, sets)
	}
	if err := filelink.MkdirAll(o.Folder, 0o777); err != nil {
		return nil, fmt.Errorf("the teacher's scores cannot be written: %w", err)
	}
	path := filepath.Join(o.Folder, fmt.Sprintf("%x", w.key)+suffix)
	if s, err := w.complete(path, sets); s != nil || err != nil {
		return s, err
	}
	pending, err := o.lock(ctx, path+pendingSuffix)
	if err != nil {
		return nil, err
	}
	if s, err := w.complete(path, sets); s != nil || err != nil { // by the process that had the lock
		filelock.Remove(pending)
		return s, err
	}
	s, err := w.fill(ctx, pending, sets)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(pending.Name(), path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// key hashes the settings and the data.
func (o *Options) key(sets []*data.Dataset) (key [16]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q %d %v %d", formatVersion, o.Key, o.TopK, o.Temperature, o.Vocab)
	for _, d := range sets {
		fmt.Fprintf(h, " %s", d.Fingerprint())
	}
	copy(key[:], h.Sum(nil))
	return key
}

// lock opens the pending file and waits for its lock.
func (o *Options) lock(ctx context.Context, path string) (*os.File, error) {
	for tries := 0; ; tries++ {
		file, err := filelock.Create(path)
		switch {
		case err == nil:
			return file, nil
		case err != filelock.ErrLocked:
			return nil, fmt.Errorf("the teacher's scores cannot be written: %w", err)
		case tries == 1:
			o.Warn(fmt.Sprintf("waiting for another process, which computes the same scores of the teacher in %s", path))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pollLock):
		}
	}
}

// complete opens the file at path if it has all records; nil if it is absent or damaged.
func (w *writer) complete(path string, sets []*data.Dataset) (*Scores, error) {
	file, _, err := filelink.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, end, err := readRecords(file, w.header())
	if err == nil {
		if size, _ := file.Seek(0, io.SeekEnd); end != size {
			err = fmt.Errorf("it is damaged after byte %d", end)
		}
	}
	if err == nil {
		err = s.check(sets)
	}
	if err != nil {
		file.Close()
		w.options.Warn(fmt.Sprintf("the teacher's scores in %s cannot be used: %v; computing them again", path, err))
		return nil, nil
	}
	s.fromCache = len(s.records)
	return s, nil
}

// check reports the first sample without scores.
func (s *Scores) check(sets []*data.Dataset) error {
	return eachSample(sets, func(x data.Sample) error {
		if _, ok := s.records[keyOf(x)]; !ok {
			return fmt.Errorf("it lacks a sample of %s", counted.Of(len(x.Tokens), "token"))
		}
		return nil
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

// keyOf hashes a sample.
func keyOf(x data.Sample) (key sampleKey) {
	h := sha256.New()
	binary.Write(h, binary.LittleEndian, int64(len(x.Tokens)))
	binary.Write(h, binary.LittleEndian, x.Tokens)
	for _, i := range train.TrainedTokens(x) {
		binary.Write(h, binary.LittleEndian, int64(i))
	}
	copy(key[:], h.Sum(nil))
	return key
}

// Of returns what the teacher says of a sample of the data sets.
func (s *Scores) Of(x data.Sample) (train.Taught, error) {
	if s == nil || s.file == nil {
		return train.Taught{}, errors.New("the teacher's scores are nil or a zero value; Open makes them")
	}
	at, ok := s.records[keyOf(x)]
	if !ok {
		return train.Taught{}, fmt.Errorf("the teacher has not scored a sample of %s", counted.Of(len(x.Tokens), "token"))
	}
	raw := make([]byte, at.size)
	if _, err := s.file.ReadAt(raw, at.at); err != nil {
		return train.Taught{}, fmt.Errorf("the teacher's scores: %w", err)
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
	if s == nil {
		return 0
	}
	return len(s.records)
}

// Close closes the file.
func (s *Scores) Close() error {
	if s == nil || s.file == nil {
		return nil
	}
	return s.file.Close()
}
