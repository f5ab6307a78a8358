package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goggml/ggml/llm/tokenizer"
)

// LoadOptions say how [Load] makes a data set. With a Length alone it goes by the sources, the vocabulary and its chat
// template.
type LoadOptions struct {
	Length  int // predicted tokens of a sample, at most
	Context int // positions that the model was trained on, for warnings; 0 where they need not know

	Text    TextOptions    // how text becomes samples, of the Length above
	Read    ReadOptions    // how records are read
	Encode  EncoderOptions // how they become samples
	TooLong LongSamples    // what becomes of those that are too long
	// HoldOut is the part of the rows that is held out, see [Dataset.Split]; 0 is none.
	HoldOut float64
	// HoldOutByRow holds them out by [Dataset.SplitByRow], for a run that began so.
	HoldOutByRow bool
	// Packed lets several samples share a row, see [Dataset.Packed]; what is held out has one in each.
	Packed bool
	// MaxExamples takes so many records, the first ones; 0 takes all.
	MaxExamples int
	// SkipBroken leaves out broken records and counts them; otherwise the first one ends loading. Read and Encode need not
	// have it.
	SkipBroken bool

	Cache  string  // folder that keeps the tokens for the next time, see [PrepareOptions]
	Hashes *Hashes // of the files, for the cache; may be nil

	Progress func(Progress)       // called now and then, and at the end unless all was in the cache; may be nil
	Warn     func(message string) // of the cache, see [PrepareOptions]; may be nil
}

// Progress is how far [Load] has come.
type Progress struct {
	Stats
	IsText       bool
	Bytes, Total int64 // of the files, before they are unpacked; equal at the end alone
}

// Loaded is a data set, and what became of its sources.
type Loaded struct {
	Data     *Dataset
	Held     *Dataset // by LoadOptions.HoldOut, or nil
	Files    []string // of the sources
	Valid    []string // of the folders among them: held-out data, of which nothing is loaded
	IsText   bool     // the files are text, and not records
	Stats    Stats
	Broken   *Broken // what was left out, with LoadOptions.SkipBroken
	Warnings []Warning
	Copies   int // of records: samples that have the same tokens as one before

	all     *Dataset     // with what is held out
	records recordSource // what was loaded, unless it was text
}

// Load makes a data set of sources: files, folders, patterns (see [Expand]), or [Stdin]. All are text, which is
// concatenated, or all have records, see [Read]; conversations are rendered by the chat template of the model. Warnings
// lists what to know about the records before training. It returns an [*OptionError] if cutting long records would lose
// most answers of most of them. Close the data set, and Held with it, when it is no longer used.
func Load(ctx context.Context, t *tokenizer.Tokenizer, sources []string, o LoadOptions) (*Loaded, error) {
	splits, err := Expand(sources)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Files: splits.Train, Valid: splits.Valid}
	if l.IsText, err = isText(l.Files, o.Read.Readers); err != nil {
		return nil, err
	}
	if o.SkipBroken {
		l.Broken = &Broken{}
	}
	loaded := versionsOf(l.Files)
	var from maker
	if l.IsText {
		from, err = newTextSource(t, l.Files, loaded, o)
	} else {
		l.records, err = newRecordSource(t, l.Files, loaded, l.Broken, o)
		from = l.records
	}
	if err != nil {
		return nil, err
	}
	prepare := PrepareOptions{Length: o.Length, TooLong: o.TooLong, SkipBroken: l.Broken, Warn: o.Warn}
	if prepare.Cache, prepare.Key, err = o.cacheOf(l.Files, from); err != nil {
		return nil, err
	}
	progress := o.progressOf(l)
	prepare.Progress = func(s Stats) { progress(from.bytesRead(), s, false) }
	l.all, l.Stats, err = from.prepare(ctx, prepare)
	if cut := o.checkCut(l.Stats); cut != nil { // which is why there may be no sample at all
		l.Close()
		return nil, cut
	}
	if err != nil {
		return nil, err
	}
	if !l.Stats.FromCache {
		progress(0, l.Stats, true)
	}
	l.Warnings = o.warnings(l.Stats)
	if l.Stats.NotesOf(Rendered) != nil {
		if w, isOther := l.records.encoder.otherPrompt(); isOther {
			l.Warnings = append(l.Warnings, w)
		}
	}
	err = l.countCopies()
	if err == nil {
		err = l.arrange(o)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// countCopies counts the copies among records.
func (l *Loaded) countCopies() error {
	if l.IsText {
		return nil
	}
	distinct, err := l.all.Distinct()
	l.Copies = l.all.Len() - distinct.Len()
	return err
}

// arrange holds some of the rows out, and fills the others.
func (l *Loaded) arrange(o LoadOptions) (err error) {
	l.Data = l.all
	if o.HoldOut != 0 {
		split := l.all.Split
		if o.HoldOutByRow {
			split = l.all.SplitByRow
		}
		if l.Data, l.Held, err = split(o.HoldOut); err != nil {
			return err
		}
	}
	if o.Packed {
		l.Data, err = l.Data.Packed(0)
	}
	return err
}

// Close closes the files of the data.
func (l *Loaded) Close() error {
	if l == nil {
		return nil
	}
	return l.all.Close()
}

// A maker makes samples of files.
type maker interface {
	key() string // identifies everything but the files that decides the samples
	bytesRead() int64
	prepare(ctx context.Context, o PrepareOptions) (*Dataset, Stats, error)
}

// cacheOf returns the folder of the cache, and the key in it: the contents of the files, and what makes samples of them.
// Pipes have no cache, because their contents cannot be compared with an earlier run's.
func (o *LoadOptions) cacheOf(files []string, m maker) (folder, key string, err error) {
	if o.Cache == "" || slices.ContainsFunc(files, IsPipe) {
		return "", "", nil
	}
	sums, err := o.Hashes.Of(files...)
	return o.Cache, strings.Join(sums, " ") + " " + m.key(), err
}

// progressInterval is as often as people see: samples of text take less time than to say how many there are.
const progressInterval = 50 * time.Millisecond

// progressOf gives what is called with the bytes that were read, and all of them at the end: what is read is not all done
// before.
func (o *LoadOptions) progressOf(l *Loaded) func(bytes int64, s Stats, isEnd bool) {
	if o.Progress == nil {
		return func(int64, Stats, bool) {}
	}
	total, last := max(1, sizeOf(l.Files)), time.Now()
	return func(bytes int64, s Stats, isEnd bool) {
		if now := time.Now(); isEnd || now.Sub(last) >= progressInterval {
			last = now
		} else {
			return
		}
		if bytes = min(bytes, total-1); isEnd {
			bytes = total
		}
		o.Progress(Progress{Stats: s, IsText: l.IsText, Bytes: bytes, Total: total})
	}
}

// sizeOf adds up the bytes of files that have a size.
func sizeOf(files []string) int64 {
	var total int64
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total
}

// textSource is files that are one text.
type textSource struct {
	t        *tokenizer.Tokenizer
	files    []string
	versions versions
	options  TextOptions
	read     *atomic.Int64
}

func newTextSource(t *tokenizer.Tokenizer, files []string, v versions, o LoadOptions) (textSource, error) {
	if o.MaxExamples > 0 {
		return textSource{}, &OptionError{Warning{[]any{Option{Name: "MaxExamples"}, " counts records, and this is text; leave it out"}}}
	}
	for _, file := range files { // a device need not end
		if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
			return textSource{}, fmt.Errorf("%s is a device; write its text into a file", file)
		}
	}
	o.Text.Length = o.Length
	return textSource{t, files, v, o.Text, new(atomic.Int64)}, nil
}

func (x textSource) key() string {
	h := sha256.New()
	writeVocabulary(x.t, func(name string, v any) { fmt.Fprintf(h, "%s %#v\n", name, v) })
	return fmt.Sprintf("%s %+v", shortHash(h), x.options)
}

func (x textSource) bytesRead() int64 { return x.read.Load() }

func (x textSource) prepare(ctx context.Context, o PrepareOptions) (*Dataset, Stats, error) {
	samples := unchanged(TextSamples(x.t, &textFiles{paths: x.files, count: x.read}, x.options), x.versions)
	d, stats, err := Prepare(ctx, samples, func(s Sample) (Sample, error) { return s, nil }, o)
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(x.files, ", "), err)
	}
	return d, stats, err
}

// recordSource is files that have examples.
type recordSource struct {
	files    []string
	versions versions
	read     ReadOptions
	encoder  *Encoder
	most     int // examples; 0 for all
}

func newRecordSource(t *tokenizer.Tokenizer, files []string, v versions, broken *Broken, o LoadOptions) (r recordSource, err error) {
	o.Read.SkipBroken, o.Encode.SkipBroken = broken, broken
	if o.Read.BytesRead == nil {
		o.Read.BytesRead = new(atomic.Int64)
	}
	r = recordSource{files: files, versions: v, read: o.Read, most: max(0, o.MaxExamples)}
	r.encoder, err = NewEncoder(t, o.Encode)
	return r, err
}

// key has the names of the files too, which warnings name.
func (r recordSource) key() string {
	key := r.encoder.Key() + " " + r.read.Key() + fmt.Sprintf(" %q", r.files)
	if r.most > 0 {
		key += fmt.Sprintf(" first %d", r.most)
	}
	return key
}

func (r recordSource) bytesRead() int64 { return r.read.BytesRead.Load() }

func (r recordSource) prepare(ctx context.Context, o PrepareOptions) (*Dataset, Stats, error) {
	return Prepare(ctx, unchanged(r.examples(ctx), r.versions), r.encoder.Encode, o)
}

func (r recordSource) examples(ctx context.Context) iter.Seq2[Example, error] {
	return func(yield func(Example, error) bool) {
		given := 0
		for x, err := range readFiles(ctx, r.files, r.read) {
			if !yield(x, err) {
				return
			}
			if given++; given == r.most {
				return
			}
		}
	}
}

// First is the first sample, held out or not, and of each of its tokens whether it is of the words of its record, see
// [Encoder.Words]; nil where that is not known: of text, and of pipes, which are read once.
func (l *Loaded) First(ctx context.Context) (Sample, []bool, error) {
	if l == nil || ctx == nil {
		return Sample{}, nil, errors.New("what was loaded, or the context.Context, is nil")
	}
	row, err := l.all.Row(0)
	if err != nil || len(row) == 0 {
		return Sample{}, nil, err
	}
	if l.IsText || l.records.encoder == nil || slices.ContainsFunc(l.Files, IsPipe) {
		return row[0], nil, nil
	}
	return row[0], l.records.wordsOf(ctx, row[0]), nil
}

// wordsOf finds the record of the first sample: it is the first of those that become one.
func (r recordSource) wordsOf(ctx context.Context, first Sample) []bool {
	if r.read.SkipBroken != nil { // without counting them again
		encoder := *r.encoder
		r.encoder = &encoder
		r.read.SkipBroken, r.encoder.o.SkipBroken = &Broken{}, &Broken{}
	}
	r.read.BytesRead = nil
	for x, err := range r.examples(ctx) {
		if err != nil {
			return nil
		}
		sample, err := r.encoder.Encode(x)
		if err != nil {
			return nil
		}
		if n := len(first.Tokens); len(sample.Tokens) < n || !slices.Equal(sample.Tokens[:n], first.Tokens) {
			continue // it was left out
		}
		words, err := r.encoder.Words(x)
		if err != nil {
			return nil
		}
		return words
	}
	return nil
}
