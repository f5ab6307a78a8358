package data

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/counted"
)

// A Row is a row of a batch: one sample, or several packed samples, which do not attend to each other.
type Row []Sample

// Predicted returns the number of predicted tokens.
func (r Row) Predicted() int {
	n := 0
	for _, s := range r {
		n += s.Predicted()
	}
	return n
}

// A Dataset is a list of rows of at most Length predicted tokens each. Its samples are in memory or in
// a file, from which [Dataset.Row] reads. It is immutable and safe for concurrent use.
type Dataset struct {
	Length int // maximum number of predicted tokens per row

	samples sampleStore
	sources []string // names of the files that origins number
	order   []uint32 // indices of samples, row by row; nil means all samples in order
	starts  []uint32 // place in order of each row's first sample, and the end; nil means one sample per row
}

// A sampleStore holds the samples of a Dataset.
type sampleStore interface {
	len() int
	tokens(i int) int // number of tokens of sample i
	sample(i int) (Sample, error)
	check(length, vocab int) error
	fingerprint() string
	close() error
}

// New returns a data set with one sample per row. It keeps the slice; the caller must not change the
// samples.
func New(length int, samples []Sample) *Dataset {
	return &Dataset{Length: length, samples: &inMemory{samples: samples}}
}

// NewRows returns a data set of rows with one sample or several, such as pairs that a loss compares. The
// samples of a row must have at most length predicted tokens together. It keeps the samples.
func NewRows(length int, rows []Row) (*Dataset, error) {
	var samples []Sample
	starts := []uint32{0}
	for i, row := range rows {
		if n := row.Predicted(); n > length {
			return nil, fmt.Errorf("row %d has %s; at most %d fit", i, counted.Of(n, "predicted token"), length)
		}
		samples = append(samples, row...)
		starts = append(starts, uint32(len(samples)))
	}
	return &Dataset{Length: length, samples: &inMemory{samples: samples}, starts: starts}, nil
}

// Close closes the file of samples, if any, after reads in progress have ended. All data sets that
// share the samples are closed: reading their rows returns an error that wraps [ggml.ErrClosed] and
// [os.ErrClosed]. Close can be called again.
func (d *Dataset) Close() error {
	if d == nil || d.samples == nil {
		return nil
	}
	return d.samples.close()
}

// Len returns the number of rows.
func (d *Dataset) Len() int {
	switch {
	case d == nil || d.samples == nil:
		return 0
	case d.starts != nil:
		return len(d.starts) - 1
	case d.order != nil:
		return len(d.order)
	}
	return d.samples.len()
}

// NumSamples returns the number of samples in all rows.
func (d *Dataset) NumSamples() int {
	if d.IsPacked() {
		return int(d.starts[d.Len()])
	}
	return d.Len()
}

// IsPacked reports whether rows may have several samples.
func (d *Dataset) IsPacked() bool { return d != nil && d.starts != nil }

// Row reads row i, from 0. The caller must not write to the result. It returns an error if the file
// cannot be read or i is out of range.
func (d *Dataset) Row(i int) (Row, error) {
	if n := d.Len(); i < 0 || i >= n {
		return nil, fmt.Errorf("there is no row %d: the data set has %d", i, n)
	}
	from, to := d.places(i)
	row := make(Row, to-from)
	for k := range row {
		n := d.number(from + k)
		var err error
		row[k], err = d.samples.sample(n)
		switch {
		case errors.Is(err, os.ErrClosed):
			return nil, fmt.Errorf("the data set is closed: %w (%w)", ggml.ErrClosed, err)
		case err != nil:
			return nil, fmt.Errorf("sample %d of the data set: %w", n, err)
		}
	}
	return row, nil
}

// Place returns the place of a sample of the data set, such as "chat.jsonl:3" or, for a later part of a
// long record or text, "chat.jsonl:3, from token 512"; "" if it is unknown.
func (d *Dataset) Place(s Sample) string {
	o := s.Origin
	if d == nil || o.Line < 1 || o.File < 0 || o.File >= len(d.sources) {
		return ""
	}
	place := fmt.Sprintf("%s:%d", displayName(d.sources[o.File]), o.Line)
	if o.Token > 0 {
		place += fmt.Sprintf(", from token %d", o.Token)
	}
	return place
}

// Predicted returns the number of predicted tokens of row i, without reading it. It panics if i is out
// of range.
func (d *Dataset) Predicted(i int) int {
	n := 0
	for k, to := d.places(i); k < to; k++ {
		n += max(0, d.samples.tokens(d.number(k))-1)
	}
	return n
}

// SamplesIn returns the number of samples of row i, without reading it. It panics if i is out of range.
func (d *Dataset) SamplesIn(i int) int {
	from, to := d.places(i)
	return to - from
}

// places returns the range of a row's samples in the order of rows.
func (d *Dataset) places(row int) (from, to int) {
	if d.starts == nil {
		return row, row + 1
	}
	return int(d.starts[row]), int(d.starts[row+1])
}

// number returns the number of the sample at a place in the order of rows.
func (d *Dataset) number(place int) int {
	if d.order == nil {
		return place
	}
	return int(d.order[place])
}

// Longest returns the number of predicted tokens of the longest sample.
func (d *Dataset) Longest() int {
	n := 0
	for place := range d.NumSamples() {
		n = max(n, d.samples.tokens(d.number(place))-1)
	}
	return n
}

// LongestRow returns the number of predicted tokens of the longest row.
func (d *Dataset) LongestRow() int {
	if !d.IsPacked() {
		return d.Longest()
	}
	n := 0
	for row := range d.Len() {
		n = max(n, d.Predicted(row))
	}
	return n
}

// NumTokens returns the number of predicted tokens of all rows.
func (d *Dataset) NumTokens() int {
	n := 0
	for row := range d.Len() {
		n += d.Predicted(row)
	}
	return n
}

// Fill returns the fraction of row positions that samples occupy; the rest is padding. It is 0 without
// rows.
func (d *Dataset) Fill() float64 {
	if d.Len() == 0 {
		return 0
	}
	return float64(d.NumTokens()) / float64(d.Len()) / float64(d.Length)
}

// Check returns an error if a sample does not fit into a row, or if a token is not in a vocabulary of
// that size.
func (d *Dataset) Check(vocab int) error {
	if d.Len() == 0 {
		return errors.New("the data set has no samples")
	}
	return d.samples.check(d.Length, vocab)
}

// Fingerprint returns a hash of all samples and their order, the same in memory and in a file.
func (d *Dataset) Fingerprint() string {
	if d.Len() == 0 {
		return shortHash(sha256.New())
	}
	all := d.samples.fingerprint()
	if d.order == nil && d.starts == nil {
		return all
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d\n", all, len(d.order), len(d.starts))
	binary.Write(h, binary.LittleEndian, d.order)
	binary.Write(h, binary.LittleEndian, d.starts)
	return shortHash(h)
}

func shortHash(h hash.Hash) string { return fmt.Sprintf("%x", h.Sum(nil)[:16]) }
