package data

import (
	"compress/gzip"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

const (
	shortTalk = `{"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}` + "\n"
	longTalk  = `{"messages": [{"role": "user", "content": "a question that is far too long for this"}, {"role": "assistant", "content": "an answer that is, too"}], "topic": 1}` + "\n"
)

// inFolder writes files to a folder, and returns a function that gives their paths.
func inFolder(t *testing.T, files map[string]string) func(name string) string {
	t.Helper()
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(in(name)), 0o700))
		file, err := os.Create(in(name))
		require.NoError(t, err)
		if strings.HasSuffix(name, ".gz") {
			z := gzip.NewWriter(file)
			_, err = z.Write([]byte(text))
			require.NoError(t, err)
			require.NoError(t, z.Close())
		} else {
			_, err = file.WriteString(text)
			require.NoError(t, err)
		}
		require.NoError(t, file.Close())
	}
	return in
}

// One call makes a data set from sources of any kind, with the vocabulary's template.
func TestLoad(t *testing.T) {
	in := inFolder(t, map[string]string{
		"a.txt": "one text ", "b.txt.gz": "and another one", "c.jsonl": shortTalk + shortTalk, "c.jsonl.gz": shortTalk,
		"folder/train.jsonl": shortTalk, "folder/valid.jsonl": shortTalk, "t.csv": "prompt,completion\n2 + 2?,4\n",
	})
	v := withTemplate(t, chatML)
	for _, c := range []struct {
		sources           []string
		isText            bool
		files, samples    int
		valid             []string
		first, firstWords string
	}{
		{[]string{in("*.txt*")}, true, 2, 2, nil, "one text and anot", ""},
		{[]string{in("a.txt"), in("b.txt.gz")}, true, 2, 2, nil, "one text and anot", ""},
		{[]string{in("c.jsonl"), in("c.jsonl.gz")}, false, 2, 3, nil, "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n", "2 + 2?4"},
		{[]string{in("folder")}, false, 1, 1, []string{in("folder/valid.jsonl")}, "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n", "2 + 2?4"},
		{[]string{in("t.csv")}, false, 1, 1, nil, "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n", "2 + 2?4"},
	} {
		length := 100
		if c.isText {
			length = 16
		}
		var last Progress
		d, err := Load(t.Context(), v, c.sources, LoadOptions{Length: length, Progress: func(p Progress) {
			require.LessOrEqual(t, last.Bytes, p.Bytes)
			last = p
		}})
		require.NoError(t, err, c.sources)
		require.Equal(t, c.isText, d.IsText)
		require.Len(t, d.Files, c.files)
		require.Equal(t, c.valid, d.Valid)
		require.Equal(t, c.samples, d.Data.NumSamples())
		require.Equal(t, Progress{Stats: d.Stats, IsText: c.isText, Bytes: sizeOf(d.Files), Total: sizeOf(d.Files)}, last)
		row := need.Value(d.Data.Row(0))(t)
		first := row[0]
		require.Equal(t, c.first, FormatSample(v, first, Marks{}))
		var text strings.Builder
		for i, isWord := range first.Words {
			if isWord {
				text.Write(v.Piece(first.Tokens[i]))
			}
		}
		require.Equal(t, c.firstWords, text.String())
		require.NoError(t, d.Close())
	}
}

// A sample knows its file, line and part of the record: of records of any kind, held out and packed, and from the
// cache.
func TestPlace(t *testing.T) {
	in := inFolder(t, map[string]string{
		"c.jsonl": shortTalk + "broken\n\n" + longTalk, "list.json": "[\n" + strings.TrimSpace(shortTalk) + "]",
		"t.csv.gz": "prompt,completion\n2 + 2?,4\n\"two\nlines\",5\n", "folder/train.jsonl": shortTalk, "a.txt": "text",
	})
	v := withTemplate(t, chatML)
	o := LoadOptions{Length: 70, TooLong: SplitLong, SkipBroken: true, Cache: in("cache"), HoldOut: 0.3, Packed: true}
	for _, cached := range []bool{false, true} {
		d := need.Value(Load(t.Context(), v, []string{in("*.*s*"), in("folder")}, o))(t)
		require.Equal(t, cached, d.Stats.FromCache)
		var places []string
		for _, set := range []*Dataset{d.Data, d.Held} {
			for _, s := range samplesOf(t, set) {
				places = append(places, set.Place(s))
			}
		}
		slices.Sort(places)
		want := []string{"c.jsonl:1", "c.jsonl:4", "c.jsonl:4, from token 70", "folder/train.jsonl:1", "list.json:2", "t.csv.gz:2", "t.csv.gz:3"}
		for i := range want {
			want[i] = in(want[i])
		}
		require.Equal(t, want, places)
		require.NoError(t, d.Close())
	}

	o = LoadOptions{Length: 200, Read: ReadOptions{Stdin: strings.NewReader("\n" + shortTalk)}}
	d := need.Value(Load(t.Context(), v, []string{Stdin}, o))(t)
	require.Equal(t, "stdin:2", d.Data.Place(samplesOf(t, d.Data)[0]))
	require.NoError(t, d.Close())
	for _, origin := range []Origin{{}, {Line: 1}, {File: -1, Line: 1}} {
		require.Empty(t, New(1, nil).Place(Sample{Origin: origin}))
	}
	require.Empty(t, (*Dataset)(nil).Place(Sample{}))
}

// A sample of text knows the file and line where its document begins.
func TestPlaceOfText(t *testing.T) {
	in := inFolder(t, map[string]string{"1.txt": "left out\n\n#one\n#two is longer\nand #at", "2.txt": "", "3.txt.gz": " the end\n\n#last", "4.txt": "#own"})
	v := withTemplate(t, chatML)
	for start, want := range map[string][]string{
		"":    {"1.txt:1", "1.txt:1, from token 12", "1.txt:1, from token 24", "1.txt:1, from token 36", "1.txt:1, from token 48"},
		"#":   {"1.txt:3", "1.txt:4", "1.txt:4, from token 12", "1.txt:5", "3.txt.gz:3", "4.txt:1"},
		"\n#": {"1.txt:2", "1.txt:3", "1.txt:3, from token 12", "1.txt:3, from token 24", "3.txt.gz:2"},
	} {
		d := need.Value(Load(t.Context(), v, []string{in("*.txt*")}, LoadOptions{Length: 12, Text: TextOptions{SampleStart: start}}))(t)
		var places []string
		for _, s := range samplesOf(t, d.Data) {
			places = append(places, filepath.Base(d.Data.Place(s)))
		}
		require.Equal(t, want, places, "%q", start)
		require.NoError(t, d.Close())
	}
}

// Whether the cache is used depends exactly on what affects the samples.
func TestLoadFromCache(t *testing.T) {
	in := inFolder(t, map[string]string{"a.txt": strings.Repeat("some text ", 9), "c.jsonl": shortTalk + "broken\n" + shortTalk, "same.jsonl": shortTalk + "broken\n" + shortTalk})
	v := withTemplate(t, chatML)
	text, talks := LoadOptions{Length: 16, Cache: in("cache")}, LoadOptions{Length: 100, Cache: in("cache"), SkipBroken: true}
	changed := func(o LoadOptions, change func(*LoadOptions)) LoadOptions {
		change(&o)
		return o
	}
	for i, c := range []struct {
		source string
		o      LoadOptions
		cached bool
	}{
		{"a.txt", text, false}, {"a.txt", text, true},
		{"a.txt", changed(text, func(o *LoadOptions) { o.Text.SampleStart = "some" }), false},
		{"a.txt", changed(text, func(o *LoadOptions) { o.Encode.RawPrompts = true }), true},
		{"c.jsonl", talks, false}, {"c.jsonl", talks, true},
		{"same.jsonl", talks, false}, // warnings contain file names
		{"c.jsonl", changed(talks, func(o *LoadOptions) { o.Encode.TrainOn = chat.All }), false},
		{"c.jsonl", changed(talks, func(o *LoadOptions) { o.MaxExamples = 1 }), false},
		{"c.jsonl", changed(talks, func(o *LoadOptions) { o.Text.SampleStart = "some" }), true},
	} {
		d := need.Value(Load(t.Context(), v, []string{in(c.source)}, c.o))(t)
		require.Equal(t, c.cached, d.Stats.FromCache, i)
		if !d.IsText && c.o.MaxExamples == 0 {
			require.Equal(t, 1, d.Broken.Total())
		}
		require.NoError(t, d.Close())
	}
}

// Warnings name options, or flags.
func TestLoadWarnings(t *testing.T) {
	in := inFolder(t, map[string]string{"cut.jsonl": shortTalk + shortTalk + longTalk, "lost.jsonl": shortTalk + longTalk + longTalk, "all.jsonl": longTalk, "a.txt": "text"})
	v := withTemplate(t, chatML)
	flag := func(o Option) string { return strings.TrimRight("--"+strings.ToLower(o.Name)+"="+o.Value, "=") }
	d := need.Value(Load(t.Context(), v, []string{in("cut.jsonl")}, LoadOptions{Length: 40}))(t)
	defer d.Close()
	require.Len(t, d.Warnings, 2)
	require.Equal(t, "too long for Length 40 and cut: 1 of 3 records (33 %), and 1 lose all or most of their answers; "+
		"Length 82 fits all; TooLong drop leaves them out, TooLong split makes several samples of each", d.Warnings[0].String())
	require.Equal(t, `unused keys: "topic" (1 record, first `+in("cut.jsonl")+`:3); --keys=NAME gives a key another name`, d.Warnings[1].Named(flag))
	turns, _, _ := strings.Cut(chatML, "{% if add_generation_prompt %}")
	d = need.Value(Load(t.Context(), withTemplate(t, turns), []string{in("all.jsonl")}, LoadOptions{Length: 400}))(t)
	defer d.Close()
	require.Equal(t, `the chat template has no generation prompt, but writes "<|im_start|>assistant\n" before answers: programs that follow the template give a prompt that was not trained; with `+
		"--template, give a template with a generation prompt equal to the start of its answers", d.Warnings[len(d.Warnings)-1].Named(flag))

	for _, c := range []struct {
		sources []string
		o       LoadOptions
		want    string
	}{
		{[]string{in("lost.jsonl")}, LoadOptions{Length: 40, Context: 64},
			"too long for --length=40 and cut, most records lose all or most of their answers: 2 of 3; " +
				"the longest has 82 tokens, and the model was trained on 64 positions; --toolong=drop leaves them out, --toolong=split makes several samples of each"},
		{[]string{in("all.jsonl")}, LoadOptions{Length: 40},
			"too long for --length=40 and cut, most records lose all or most of their answers: 1 of 1; --length=82 fits all; --toolong=drop leaves them out, --toolong=split makes several samples of each"},
		{[]string{in("a.txt")}, LoadOptions{Length: 4, MaxExamples: 1}, "--maxexamples counts records, but this data is text; leave it out"},
	} {
		_, err := Load(t.Context(), v, c.sources, c.o)
		var options *OptionError
		require.ErrorAs(t, err, &options)
		require.Equal(t, c.want, options.Named(flag))
	}
	_, err := Load(t.Context(), v, []string{in("a.txt"), in("cut.jsonl")}, LoadOptions{Length: 4})
	require.EqualError(t, err, in("a.txt")+" is text and "+in("cut.jsonl")+" has records; train on one kind")
	_, err = Load(t.Context(), v, []string{os.DevNull}, LoadOptions{Length: 4})
	require.EqualError(t, err, os.DevNull+" is a device; write its text into a file")
	_, err = Load(t.Context(), v, nil, LoadOptions{Length: 4})
	require.EqualError(t, err, "no source of data is given")
	_, err = Load(t.Context(), nil, []string{in("a.txt")}, LoadOptions{Length: 4})
	require.EqualError(t, err, in("a.txt")+": the vocabulary, or the reader of the text, is nil")
}

// Rows are held out, and the others are packed.
func TestLoadSplits(t *testing.T) {
	var ten strings.Builder
	for i := range 10 {
		ten.WriteString(strings.Replace(shortTalk, "2 + 2", fmt.Sprint(3+i%7, " + ", i), 1))
	}
	in := inFolder(t, map[string]string{"c.jsonl": ten.String(), "copies.jsonl": strings.Repeat(shortTalk, 6) + ten.String()})
	v := withTemplate(t, chatML)
	for byRow, want := range map[bool][]int{false: {14, 2, 5}, true: {14, 2, 5}} { // rows 0 and 8; row 0 has duplicates
		d := need.Value(Load(t.Context(), v, []string{in("copies.jsonl")}, LoadOptions{Length: 110, HoldOut: 0.125, HoldOutByRow: byRow}))(t)
		shared := need.Value(d.Held.Shared(d.Data))(t)
		require.Equal(t, byRow, shared > 0)
		require.Equal(t, want, []int{d.Data.Len(), d.Held.Len(), d.Copies})
		require.NoError(t, d.Close())
	}
	d := need.Value(Load(t.Context(), v, []string{in("c.jsonl")}, LoadOptions{Length: 110, HoldOut: 0.2, Packed: true}))(t)
	require.Equal(t, 10, d.Stats.Samples)
	require.Equal(t, []int{8, 2, 2, 2}, []int{d.Data.NumSamples(), d.Data.Len(), d.Held.NumSamples(), d.Held.Len()})
	require.NoError(t, d.Close())
	_, err := d.Held.Row(0)
	require.Error(t, err)
	_, err = Load(t.Context(), v, []string{in("c.jsonl")}, LoadOptions{Length: 110, HoldOut: 1})
	require.EqualError(t, err, "1 of 10 rows cannot be held out: some must be held out, and some must remain; choose another fraction, or add data")
	require.NoError(t, (*Loaded)(nil).Close())
}

// A nil context is an error, not a panic.
func TestNoContext(t *testing.T) {
	in := inFolder(t, map[string]string{"a.jsonl": `{"text": "abcdef"}` + "\n", "a.txt": "abcdef"})
	var none context.Context
	const want = "the context.Context is nil"
	for _, name := range []string{"a.jsonl", "a.txt"} {
		_, err := Load(none, byteTokenizer(t, false), []string{in(name)}, LoadOptions{Length: 8})
		require.ErrorContains(t, err, want)
	}
	for _, err := range Read(none, []string{in("a.jsonl")}, ReadOptions{}) {
		require.EqualError(t, err, want)
	}
}

// If a file changes while it is read, there is no data set and no cache entry.
func TestLoadWhileWritten(t *testing.T) {
	in := inFolder(t, map[string]string{"a.quiz": "one"})
	changes := true
	o := LoadOptions{Length: 8, Cache: in("cache")}
	o.Read.Readers = map[string]RecordReader{".quiz": func(path string) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			if changes {
				changes = false
				require.NoError(t, os.WriteFile(path, []byte("another"), 0o600))
			}
			yield([]byte(`{"text": "abcdef"}`), nil)
		}
	}}
	load := func() (*Loaded, error) {
		return Load(t.Context(), byteTokenizer(t, false), []string{in("a.quiz")}, o)
	}
	_, err := load()
	require.EqualError(t, err, in("a.quiz")+" changed while it was read; load it again when no program writes to it")
	for _, fromCache := range []bool{false, true} {
		l := need.Value(load())(t)
		require.Equal(t, fromCache, l.Stats.FromCache)
		require.NoError(t, l.Close())
	}

	text := versionsOf([]string{in("a.quiz")})
	require.NoError(t, os.Remove(in("a.quiz")))
	for _, err := range unchanged(func(func(Sample, error) bool) {}, text) {
		require.ErrorContains(t, err, "changed while it was read")
	}
}
