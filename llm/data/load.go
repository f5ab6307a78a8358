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

// LoadOptions are the settings of [Load]. Only Length is required; the sources, the vocabulary and its
// chat template determine the rest.
type LoadOptions struct {
	Length  int // maximum number of predicted tokens per sample
	Context int // positions that the model was trained on, for warnings; 0 if unknown

	Text    TextOptions    // how text is divided into samples, of the Length above
	Read    ReadOptions    // how records are read
	Encode  EncoderOptions // how records are encoded
	TooLong LongSamples    // what to do with records that are too long
	// HoldOut is the fraction of rows held out, see [Dataset.Split]; 0 means none.
	HoldOut float64
	// HoldOutByRow holds out rows by [Dataset.SplitByRow], to resume a run that began so.
	HoldOutByRow bool
	// Packed allows several samples per row, see [Dataset.Packed]; held-out rows have one each.
	Packed bool
	// MaxExamples limits the number of records to the first ones; 0 means all.
	MaxExamples int
	// Pairs loads pairs of a better and a worse answer, see [ReadOptions]: rows of two samples, chosen first,
	// of Length predicted tokens each.
	Pairs bool
	// Labels loads answers with a label, see [ReadOptions], with Sample.Label.
	Labels bool
	// Mismatched adds to the row of each labelled answer its prompt with the answer of another record: of the nearest
	// earlier one with another prompt. The loss kto estimates by them how far the model has moved. Rows then have
	// two samples, of Length predicted tokens each.
	Mismatched bool
	// SkipBroken skips and counts broken records; otherwise the first one ends loading. It need not be set
	// in Read and Encode.
	SkipBroken bool

	Cache  string  // folder that caches the tokens, see [PrepareOptions]
	Hashes *Hashes // hashes of the files, for the cache; may be nil

	Progress func(Progress)       // called at intervals, and at the end unless everything was cached; may be nil
	Warn     func(message string) // called with problems of the cache, see [PrepareOptions]; may be nil
}

// Progress is the progress of [Load].
type Progress struct {
	Stats
	IsText       bool
	Bytes, Total int64 // of the files, compressed; Bytes equals Total only at the end
}

// Loaded is a data set and its statistics.
type Loaded struct {
	Data     *Dataset
	Held     *Dataset // rows held out by LoadOptions.HoldOut, or nil
	Files    []string // files of the sources
	Valid    []string // held-out files in source folders; not loaded
	IsText   bool     // the files are text rather than records
	Stats    Stats
	Broken   *Broken // records skipped by LoadOptions.SkipBroken
	Warnings []Warning
	Copies   int // number of records with the same tokens as an earlier sample
	// Contradictions is the number of records that contradict an earlier one: the same answer has the other label, or
	// the same two answers are preferred the other way round.
	Contradictions int

	all *Dataset // including held-out rows
}

// Load makes a data set from sources: files, folders, patterns (see [Expand]), or [Stdin]. Either all
// are text, which is concatenated, or all have records, see [Read]; conversations are rendered by the
// model's chat template. Warnings lists what to know about the records before training. If cutting
// long records would lose most of the answers of most records, the error is an [*OptionError]. Close
// the data set, and Held with it, when it is no longer used.
func Load(ctx context.Context, t *tokenizer.Tokenizer, sources []string, o LoadOptions) (*Loaded, error) {
	splits, err := Expand(sources)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Files: splits.Train, Valid: splits.Valid}
	if l.IsText, err = isText(l.Files, o.Read.Readers); err != nil {
		return nil, err
	}
	if err := o.checkPairs(l); err != nil {
		return nil, err
	}
	if o.SkipBroken {
		l.Broken = &Broken{}
	}
	loaded := versionsOf(l.Files)
	var from maker
	var records recordSource
	if l.IsText {
		from, err = newTextSource(t, l.Files, loaded, o)
	} else {
		records, err = newRecordSource(t, l.Files, loaded, l.Broken, o)
		from = records
	}
	if err != nil {
		return nil, err
	}
	prepare := PrepareOptions{Length: o.Length, TooLong: o.TooLong, Sources: l.Files, SkipBroken: l.Broken, Warn: o.Warn}
	if prepare.Cache, prepare.Key, err = o.cacheOf(l.Files, from); err != nil {
		return nil, err
	}
	progress := o.progressOf(l)
	prepare.Progress = func(s Stats) { progress(from.bytesRead(), s, false) }
	l.all, l.Stats, err = from.prepare(ctx, prepare)
	if cut := o.checkCut(l.Stats); cut != nil { // cutting may be the reason for having no samples
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
		if w, isOther := records.encoder.otherPrompt(); isOther {
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

// checkPairs checks that pairs can be loaded as the options say.
func (o *LoadOptions) checkPairs(l *Loaded) error {
	switch {
	case o.Pairs && o.Labels || o.Mismatched && !o.Labels:
		return errors.New("the options Pairs and Labels exclude each other, and Mismatched needs Labels")
	case o.Labels && l.IsText:
		return &Error{File: displayName(l.Files[0]), Kind: NoExamples, Reason: "the loss judges answers by their labels, and text has none", Remedy: "give records with a prompt, a completion and a label"}
	case o.Labels && o.TooLong == SplitLong:
		return &OptionError{Warning{[]any{Option{Name: "TooLong", Value: string(SplitLong)}, " makes several samples of an answer, which has one label; cut or drop long records"}}}
	case !o.Pairs:
		return nil
	case l.IsText:
		return &Error{File: displayName(l.Files[0]), Kind: NoExamples, Reason: "the loss compares pairs of answers, and text has none", Remedy: "give records with chosen and rejected answers"}
	case o.TooLong == SplitLong:
		return &OptionError{Warning{[]any{Option{Name: "TooLong", Value: string(SplitLong)}, " makes several samples of a record, which cannot be compared; cut or drop long pairs"}}}
	}
	return nil
}

// countCopies counts duplicates and contradictions among records.
func (l *Loaded) countCopies() (err error) {
	if !l.IsText {
		l.Copies, l.Contradictions, err = l.all.compareRows()
	}
	return err
}

// arrange splits off held-out rows, and packs the others.
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

// Close closes the files of the data sets.
func (l *Loaded) Close() error {
	if l == nil {
		return nil
	}
	return l.all.Close()
}

// A maker makes samples from files.
type maker interface {
	key() string // identifies everything except the files that affects the samples
	bytesRead() int64
	prepare(ctx context.Context, o PrepareOptions) (*Dataset, Stats, error)
}

// cacheOf returns the cache folder and the key: the contents of the files, and everything that affects
// the samples. Pipes are not cached, because their contents cannot be compared with an earlier run's.
func (o *LoadOptions) cacheOf(files []string, m maker) (folder, key string, err error) {
	if o.Cache == "" || slices.ContainsFunc(files, IsPipe) {
		return "", "", nil
	}
	sums, err := o.Hashes.Of(files...)
	return o.Cache, strings.Join(sums, " ") + " " + m.key(), err
}

// progressInterval is the interval at which people see a change. Samples of text take less time than
// reporting them.
const progressInterval = 50 * time.Millisecond

// progressOf returns the function to call with the bytes read. Bytes reaches Total only at the end,
// because the bytes read have not all been processed before.
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

// sizeOf returns the total size of regular files.
func sizeOf(files []string) int64 {
	var total int64
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total
}

// textSource is a list of files that form one text.
type textSource struct {
	t        *tokenizer.Tokenizer
	files    []string
	versions versions
	options  TextOptions
	read     *atomic.Int64
}

func newTextSource(t *tokenizer.Tokenizer, files []string, v versions, o LoadOptions) (textSource, error) {
	if o.MaxExamples > 0 {
		return textSource{}, &OptionError{Warning{[]any{Option{Name: "MaxExamples"}, " counts records, but this data is text; leave it out"}}}
	}
	for _, file := range files { // a device may never end
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

// recordSource is a list of files with records.
type recordSource struct {
	files    []string
	versions versions
	read     ReadOptions
	encoder  *Encoder
	most     int // maximum number of examples; 0 means all

	mismatched bool // see LoadOptions
}

func newRecordSource(t *tokenizer.Tokenizer, files []string, v versions, broken *Broken, o LoadOptions) (r recordSource, err error) {
	o.Read.SkipBroken, o.Encode.SkipBroken, o.Read.Pairs = broken, broken, o.Pairs
	o.Read.Labels = o.Labels
	if o.Read.BytesRead == nil {
		o.Read.BytesRead = new(atomic.Int64)
	}
	r = recordSource{files: files, versions: v, read: o.Read, most: max(0, o.MaxExamples), mismatched: o.Mismatched}
	r.encoder, err = NewEncoder(t, o.Encode)
	return r, err
}

// key includes the names of the files, because warnings contain them.
func (r recordSource) key() string {
	key := r.encoder.Key() + " " + r.read.Key() + fmt.Sprintf(" %q", r.files)
	if r.most > 0 {
		key += fmt.Sprintf(" first %d", r.most)
	}
	if r.mismatched {
		key += " mismatched"
	}
	return key
}

func (r recordSource) bytesRead() int64 { return r.read.BytesRead.Load() }

func (r recordSource) prepare(ctx context.Context, o PrepareOptions) (*Dataset, Stats, error) {
	examples := unchanged(r.examples(ctx), r.versions)
	switch {
	case r.read.Pairs:
		return PreparePairs(ctx, examples, r.encoder.EncodePair, o)
	case r.mismatched:
		return PreparePairs(ctx, withMismatched(eachLabelled(examples)), r.encoder.encodeLabelled, o)
	case r.read.Labels:
		return Prepare(ctx, eachLabelled(examples), r.encoder.Encode, o)
	}
	return Prepare(ctx, examples, r.encoder.Encode, o)
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
