package data

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// A numberedSample is an example: a number, and the sample that it is encoded to.
type numberedSample struct {
	n      int
	sample Sample
}

func examplesOf(samples []Sample) iter.Seq2[numberedSample, error] {
	return func(yield func(numberedSample, error) bool) {
		for i, s := range samples {
			if !yield(numberedSample{i, s}, nil) {
				return
			}
		}
	}
}

func sampleOf(x numberedSample) (Sample, error) { return x.sample, nil }

// noExamples returns examples that fail the test when read.
func noExamples(t require.TestingT) iter.Seq2[numberedSample, error] {
	return func(func(numberedSample, error) bool) { require.Fail(t, "examples are read") }
}

func drawSample(t *rapid.T) Sample {
	s := Sample{Tokens: rapid.SliceOfN(rapid.Int32Range(0, 1<<20), 0, 30).Draw(t, "tokens")}
	weight := rapid.SampledFrom([]float32{0, 0, 1, 1, 0.25, 3e-20})
	if s.Predicted() > 0 && rapid.Bool().Draw(t, "weighted") {
		s.LossWeights = rapid.SliceOfN(weight, s.Predicted(), s.Predicted()).Draw(t, "weights")
	}
	if rapid.Bool().Draw(t, "of a conversation") && len(s.Tokens) > 0 {
		s.Words = rapid.SliceOfN(rapid.Bool(), len(s.Tokens), len(s.Tokens)).Draw(t, "words")
	}
	number := rapid.IntRange(0, 1<<30)
	s.Origin = Origin{number.Draw(t, "file"), number.Draw(t, "line"), number.Draw(t, "token")}
	return s
}

// expected returns the samples that Prepare should make.
func expected(samples []Sample, length int, tooLong LongSamples) (kept []Sample, stats Stats) {
	keep := func(s Sample) {
		if s.Targets() == 0 {
			stats.Empty++
			return
		}
		kept = append(kept, s)
		stats.Samples++
		stats.Tokens += len(s.Tokens) - 1
		stats.Targets += s.Targets()
	}
	for _, s := range samples {
		stats.Examples++
		stats.Longest = max(stats.Longest, len(s.Tokens)-1)
		switch n := len(s.Tokens) - 1; {
		case n <= length:
			keep(s)
		case tooLong == DropLong:
			stats.Dropped++
		case tooLong == SplitLong:
			stats.Split++
			for from := 0; from < n; from += length {
				part := Sample{Tokens: s.Tokens[from : min(n, from+length)+1], Origin: s.Origin}
				part.Origin.Token += from
				if s.Words != nil {
					part.Words = s.Words[from : min(n, from+length)+1]
				}
				if s.LossWeights != nil {
					part.LossWeights = s.LossWeights[from:min(n, from+length)]
				}
				keep(part)
			}
		default:
			stats.Cut++
			all := s.Targets()
			s.Tokens = s.Tokens[:length+1]
			if s.Words != nil {
				s.Words = s.Words[:length+1]
			}
			if s.LossWeights != nil {
				s.LossWeights = s.LossWeights[:length]
			}
			if s.Targets()*2 < all {
				stats.Lost++
			}
			keep(s)
		}
	}
	return kept, stats
}

// requireSamples compares samples, with nil weights equal to ones.
func requireSamples(t require.TestingT, want []Sample, d *Dataset) {
	got := samplesOf(t, d)
	require.Len(t, got, len(want))
	for i, s := range want {
		require.Equal(t, s.Tokens, got[i].Tokens)
		require.Equal(t, s.Words, got[i].Words)
		require.Equal(t, s.Origin, got[i].Origin)
		if allOne(s.LossWeights) {
			require.Nil(t, got[i].LossWeights)
		} else {
			require.Equal(t, s.LossWeights, got[i].LossWeights)
		}
	}
}

// A data set has the samples and statistics of its examples, also when read from the cache.
func TestPrepare(t *testing.T) {
	folder := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		samples := rapid.SliceOfN(rapid.Custom(drawSample), 0, 30).Draw(t, "samples")
		o := PrepareOptions{
			Length: rapid.IntRange(1, 12).Draw(t, "length"), TooLong: rapid.SampledFrom([]LongSamples{"", "cut", "split", "drop"}).Draw(t, "too long"),
			Cache: rapid.SampledFrom([]string{"", folder}).Draw(t, "folder"), Key: fmt.Sprint(runs),
		}
		want, wantStats := expected(samples, o.Length, o.TooLong)
		last := Stats{}
		o.Progress = func(s Stats) { last = s }
		d, stats, err := Prepare(context.Background(), examplesOf(samples), sampleOf, o)
		require.Equal(t, wantStats, stats)
		require.Equal(t, wantStats, last)
		if len(want) == 0 {
			count := strings.TrimSuffix(fmt.Sprintf("%d examples", len(samples)), map[bool]string{true: "s"}[len(samples) == 1])
			require.EqualError(t, err, fmt.Sprintf("no token of %s is trained; check the data, its masks, and the handling of long records", count))
			return
		}
		require.NoError(t, err)
		defer d.Close()
		requireSamples(t, want, d)
		memory := New(o.Length, want)
		require.Equal(t, memory.Fingerprint(), d.Fingerprint())
		require.Equal(t, memory.Longest(), d.Longest())
		require.NoError(t, d.Check(1<<20+1))
		requireTargets(t, wantStats.Targets, d)

		if o.Cache != "" {
			again, stats, err := Prepare(context.Background(), noExamples(t), sampleOf, o)
			require.NoError(t, err)
			defer again.Close()
			wantStats.FromCache = true
			require.Equal(t, wantStats, stats)
			requireSamples(t, want, again)
			require.Equal(t, d.Fingerprint(), again.Fingerprint())
		}
	})
}

// Skipped records are the same from the cache: kinds, counts and the first of each, with any bytes in
// their texts. Only the cause is missing.
func TestSkippedRecordsFromCache(t *testing.T) {
	folder := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		anyText := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "bytes")) })
		kind := rapid.SampledFrom([]Kind{BadJSON, TemplateFailed, Empty})
		faults := make([]*Error, rapid.IntRange(0, 20).Draw(t, "faults"))
		samples := make([]Sample, len(faults)+1) // the last one is valid
		for i := range samples {
			samples[i] = Sample{Tokens: []int32{1, 2}}
		}
		for i := range faults {
			faults[i] = &Error{File: anyText.Draw(t, "file"), Line: 1 + i, Column: rapid.IntRange(0, 9).Draw(t, "column"),
				Kind: kind.Draw(t, "kind"), Reason: anyText.Draw(t, "reason"), Remedy: anyText.Draw(t, "remedy"), Err: os.ErrInvalid}
		}
		o := PrepareOptions{Length: 3, Cache: folder, Key: fmt.Sprint(runs), SkipBroken: &Broken{}}
		d, stats, err := Prepare(context.Background(), examplesOf(samples), func(x numberedSample) (Sample, error) {
			if x.n < len(faults) && o.SkipBroken.Skip(faults[x.n]) {
				return Sample{}, nil
			}
			return x.sample, nil
		}, o)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.Equal(t, 1, stats.Samples)
		require.Equal(t, len(faults), o.SkipBroken.Total())

		first := o.SkipBroken
		o.SkipBroken = &Broken{}
		d, stats, err = Prepare(context.Background(), noExamples(t), sampleOf, o)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.True(t, stats.FromCache)
		require.Equal(t, first.String(), o.SkipBroken.String())
		want := first.Counts()
		for _, c := range want {
			c.First.Err = nil
		}
		require.Equal(t, want, o.SkipBroken.Counts())

		o.SkipBroken = nil // faults are not counted
		d, _, err = Prepare(context.Background(), noExamples(t), sampleOf, o)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	})
}

func threeSamples() []Sample {
	return []Sample{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{4, 500}, LossWeights: []float32{0.5}}, {Tokens: []int32{6, 7, 70000, 9}}}
}

// prepareThree prepares three examples, and fails the test on messages.
func prepareThree(t *testing.T, o PrepareOptions) (*Dataset, Stats) {
	t.Helper()
	if o.Warn == nil {
		o.Warn = func(message string) { t.Error(message) }
	}
	d, stats, err := Prepare(context.Background(), examplesOf(threeSamples()), sampleOf, o)
	require.NoError(t, err)
	t.Cleanup(func() { d.Close() })
	return d, stats
}

// Everything that affects the samples affects the cache key.
func TestCacheKey(t *testing.T) {
	o := PrepareOptions{Length: 5, Cache: filepath.Join(t.TempDir(), "made", "when needed"), Key: "a"}
	_, stats := prepareThree(t, o)
	require.False(t, stats.FromCache)
	_, stats = prepareThree(t, o)
	require.True(t, stats.FromCache)
	for _, change := range []func(o *PrepareOptions){
		func(o *PrepareOptions) { o.Key = "b" },
		func(o *PrepareOptions) { o.Length = 6 },
		func(o *PrepareOptions) { o.TooLong = DropLong },
	} {
		other := o
		change(&other)
		_, stats := prepareThree(t, other)
		require.False(t, stats.FromCache, other)
	}
}

func cacheFiles(t require.TestingT, folder string) []string {
	return need.Value(filepath.Glob(filepath.Join(folder, "*")))(t)
}

// A cached file with any flipped bit, or truncated, is replaced, with a message that says why.
func TestDamagedCache(t *testing.T) {
	folder := t.TempDir()
	message := ""
	o := PrepareOptions{Length: 5, Cache: folder, Key: "a", Warn: func(m string) { message = m }, SkipBroken: &Broken{}}
	o.SkipBroken.Skip(&Error{File: "a.jsonl", Line: 3, Kind: BadJSON, Reason: "more follows"})
	prepareThree(t, o)
	files := cacheFiles(t, folder)
	require.Len(t, files, 1)
	whole := need.Value(os.ReadFile(files[0]))(t)
	require.Empty(t, message)
	rapid.Check(t, func(rt *rapid.T) {
		damaged := append([]byte(nil), whole...)
		if rapid.Bool().Draw(rt, "cut") {
			damaged = damaged[:rapid.IntRange(0, len(whole)-1).Draw(rt, "size")]
		} else {
			damaged[rapid.IntRange(0, len(whole)-1).Draw(rt, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		}
		require.NoError(rt, os.WriteFile(files[0], damaged, 0o600))
		message = ""
		d, stats := prepareThree(t, o)
		require.False(rt, stats.FromCache)
		require.Contains(rt, message, "the token cache "+files[0]+" cannot be used: ")
		require.Contains(rt, message, "; making it again")
		requireSamples(rt, threeSamples(), d)
		now := need.Value(os.ReadFile(files[0]))(rt)
		require.Equal(rt, whole, now)
	})
	require.Equal(t, files, cacheFiles(t, folder))
}

// The first error, in the order of the examples, ends everything, and no file is left.
func TestPrepareErrors(t *testing.T) {
	folder, broken := t.TempDir(), errors.New("line 7 is broken")
	samples := make([]Sample, 200)
	for i := range samples {
		samples[i] = Sample{Tokens: []int32{1, 2}}
	}
	failAt := func(n int) func(numberedSample) (Sample, error) {
		return func(x numberedSample) (Sample, error) {
			if x.n >= n {
				return Sample{}, fmt.Errorf("example %d", x.n)
			}
			return x.sample, nil
		}
	}
	endAt := func(n int) iter.Seq2[numberedSample, error] {
		return func(yield func(numberedSample, error) bool) {
			for x := range examplesOf(samples[:n]) {
				if !yield(x, nil) {
					return
				}
			}
			if yield(numberedSample{}, broken) {
				t.Error("examples go on after their error")
			}
		}
	}
	nan := Sample{Tokens: []int32{1, 2}, LossWeights: []float32{float32(math.NaN())}}
	for _, c := range []struct {
		want     string
		examples iter.Seq2[numberedSample, error]
		encode   func(numberedSample) (Sample, error)
	}{
		{"example 50", examplesOf(samples), failAt(50)},
		{"example 0", endAt(1), failAt(0)},
		{"line 7 is broken", endAt(20), failAt(20)},
		{"line 7 is broken", endAt(0), sampleOf},
		{"weight 0 is NaN; it must be finite and not negative", examplesOf([]Sample{nan}), sampleOf},
	} {
		for _, cache := range []string{"", folder} {
			_, _, err := Prepare(context.Background(), c.examples, c.encode, PrepareOptions{Length: 3, Cache: cache, Key: "a"})
			require.EqualError(t, err, c.want)
		}
	}
	require.Empty(t, cacheFiles(t, folder))

	ctx, cancel := context.WithCancelCause(context.Background())
	stopped := errors.New("stopped")
	_, _, err := Prepare(ctx, examplesOf(samples), func(x numberedSample) (Sample, error) {
		if x.n == 30 {
			cancel(stopped)
		}
		return x.sample, nil
	}, PrepareOptions{Length: 3, Cache: folder, Key: "a"})
	require.ErrorIs(t, err, stopped)
	require.Empty(t, cacheFiles(t, folder))

	for want, o := range map[string]PrepareOptions{
		"the field Length is 0; set it to the most predicted tokens of a sample, such as the context of the model": {},
		`unknown handling of long samples "shorten"; they can be cut, split or dropped`:                            {Length: 1, TooLong: "shorten"},
		"a token cache needs a key that identifies the data and its encoding":                                      {Length: 1, Cache: folder},
		"the token cache cannot be written: mkdir /dev/null: not a directory":                                      {Length: 1, Cache: os.DevNull, Key: "a"},
	} {
		_, _, err := Prepare(context.Background(), noExamples(t), sampleOf, o)
		require.EqualError(t, err, want)
	}
}

// Concurrent preparations of the same data wait for the first.
func TestConcurrentPrepare(t *testing.T) {
	folder := t.TempDir()
	samples := make([]Sample, 500)
	for i := range samples {
		samples[i] = Sample{Tokens: []int32{int32(i), 1, 2}}
	}
	var encoded, fromCache atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			d, stats, err := Prepare(context.Background(), examplesOf(samples), func(x numberedSample) (Sample, error) {
				encoded.Add(1)
				return x.sample, nil
			}, PrepareOptions{Length: 4, Cache: folder, Key: "a"})
			if err != nil || d.Len() != len(samples) {
				t.Errorf("%d samples, %v", d.Len(), err)
			}
			if stats.FromCache {
				fromCache.Add(1)
			}
			d.Close()
		}()
	}
	group.Wait()
	require.EqualValues(t, len(samples), encoded.Load())
	require.EqualValues(t, 3, fromCache.Load())
	require.Len(t, cacheFiles(t, folder), 1)
}

// Check reports data that a model cannot be trained on.
func TestCheckOfFile(t *testing.T) {
	d, _ := prepareThree(t, PrepareOptions{Length: 5})
	require.NoError(t, d.Check(70001))
	require.EqualError(t, d.Check(70000), "the data set has token 70000; the vocabulary has 70000")
	d.Length = 2
	require.EqualError(t, d.Check(70001), "the data set has a sample of 4 tokens; at most 3 fit")
	few := d.Limit(1)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err := few.Row(0)
	require.ErrorIs(t, err, os.ErrClosed)
}

func FuzzDecodeSample(f *testing.F) {
	for _, s := range threeSamples() {
		f.Add(encodeSample(nil, s), len(s.Tokens))
	}
	f.Fuzz(func(t *testing.T, raw []byte, tokens int) {
		if tokens < 0 {
			return
		}
		if s, err := decodeSample(raw, tokens); err == nil {
			again := need.Value(decodeSample(encodeSample(nil, s), tokens))(t)
			require.Equal(t, s.Tokens, again.Tokens)
			require.Equal(t, s.Words, again.Words)
			require.Equal(t, s.Origin, again.Origin)
		}
	})
}

// Hashes equal the examples of FIPS 180, depend only on contents, and are in the order of the files.
func TestHashFiles(t *testing.T) {
	folder := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	million := file("million", strings.Repeat("a", 1_000_000))
	blocks := strings.Repeat("0123456789abcdef", 2*hashBlock/16)
	sums := need.Value(HashFiles(file("empty", ""), file("abc", "abc"), million, file("copied", "abc")))(t)
	const ofABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	require.Equal(t, []string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", ofABC,
		"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", ofABC,
	}, sums)
	file("million", strings.Repeat("a", 999_999)+"b")
	changed := need.Value(HashFiles(million))(t)
	require.NotEqual(t, sums[2], changed[0])

	for _, content := range []string{blocks[1:], blocks, blocks + "x"} {
		sums := need.Value(HashFiles(file("blocks", content)))(t)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256([]byte(content))), sums[0])
	}

	_, err := HashFiles(million, filepath.Join(folder, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = HashFiles(os.DevNull)
	require.EqualError(t, err, "open /dev/null: it is a pipe or a device; name a regular file")
}
