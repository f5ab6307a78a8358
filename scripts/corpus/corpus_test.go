package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"pgregory.net/rapid"
)

// fakeGOROOT unpacks testdata/goroot.txtar.
func fakeGOROOT(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/goroot.txtar")
	require.NoError(t, err)
	root := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(root, filepath.FromSlash(f.Name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, f.Data, 0o644))
	}
	return root
}

// corpus runs the command and returns the text it wrote.
func corpus(t *testing.T, goroot string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "sub", "out.txt")
	require.NoError(t, run(append(args, "-goroot", goroot, "-out", out), io.Discard))
	return readFile(t, out)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// documents splits a written text, in the order of the texts themselves.
func documents(text string) []string {
	docs := strings.Split(strings.TrimSuffix(text, "\n"), documentSeparator)
	sort.Strings(docs)
	return docs
}

func TestProse(t *testing.T) {
	docs := documents(corpus(t, fakeGOROOT(t), "-kind", "prose"))
	require.Equal(t, []string{
		"Package alpha counts the things that a program has seen so far.\n\n" +
			"The following example prints nothing.\n\n" +
			"The text goes on after the code, with a link to Counter.Add in it.\n\n" +
			"Limit is how many things a counter holds before it forgets the oldest one.\n\n" +
			"pause waits until the operating system says that it may go on again.\n\n" +
			"Counter holds one number for each thing that was added to it.\n\n" +
			"seen has an entry for every thing that was ever added.\n\n" +
			"Add records that the thing was seen once more, and says how often so far.\n\n" +
			"Add is told apart by its receiver, so that its comment is kept as well.\n\n" +
			"pause is written once more for another system, with a comment of its own.",
		"Package gamma repeats what another package says in its comments.\n\n" +
			"Only this sentence is new in the whole of the second package.",
	}, docs)
}

func TestSource(t *testing.T) {
	docs := documents(corpus(t, fakeGOROOT(t), "-kind", "source"))
	require.Equal(t, []string{
		"package alpha\n\nfunc pause() {}\n\nfunc (p *plan) Add() {}",
		"package alpha\n\nfunc sleep() int { return 1 }\n\ntype plan[T any] struct{}",
		`package alpha

import (
	"fmt"

	"os"
)

const Limit = 10

type Counter struct {
	seen map[string]int
	n    int
}

func (c *Counter) Add(thing string) int {
	c.seen[thing]++
	if c.n > Limit {
		fmt.Fprintln(os.Stderr, "a // inside a string stays /* also this */")
	}
	return c.seen[thing]
}

func short() {}`,
		"package gamma\n\nfunc only() string {\n\treturn \"gamma\"\n}",
		"package main\n\nfunc main() {}",
	}, docs)
	for _, d := range docs {
		formatted, err := format.Source([]byte(d + "\n"))
		require.NoError(t, err)
		require.Equal(t, d+"\n", string(formatted))
	}
}

func TestSourceTreeBehindSymlink(t *testing.T) {
	goroot := fakeGOROOT(t)
	linked := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(goroot, "src"), filepath.Join(linked, "src")))
	require.Equal(t, corpus(t, goroot), corpus(t, linked))
}

func TestRepeatedRunsGiveTheSameBytes(t *testing.T) {
	goroot := fakeGOROOT(t)
	for _, kind := range []string{"prose", "source"} {
		first := corpus(t, goroot, "-kind", kind)
		for i := 0; i < 5; i++ {
			require.Equal(t, first, corpus(t, goroot, "-kind", kind))
		}
	}
}

func TestStripCommentsKeepsCarriageReturnsApart(t *testing.T) {
	got := stripComments([]byte("package p\r\n// a\r\n/* b\r\nc */\r\nvar x = 1 // d\r\nvar y = 2\r\n"))
	formatted, err := format.Source(got)
	require.NoError(t, err)
	require.Equal(t, "package p\n\nvar x = 1\nvar y = 2\n", string(formatted))
}

func TestErrors(t *testing.T) {
	goroot := fakeGOROOT(t)
	broken := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(broken, "src", "bad"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "src", "bad", "bad.go"), []byte("package bad\nfunc {"), 0o644))
	empty := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(empty, "src", "runtime"), 0o755))
	out := filepath.Join(t.TempDir(), "out.txt")

	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no source tree", []string{"-goroot", t.TempDir(), "-out", out}, "apt install golang-src"},
		{"empty source tree", []string{"-goroot", empty, "-out", out}, "apt install golang-src"},
		{"prose of a broken file", []string{"-goroot", broken, "-out", out}, "package bad:"},
		{"source of a broken file", []string{"-goroot", broken, "-out", out, "-kind", "source"}, "bad/bad.go:"},
		{"unknown kind", []string{"-kind", "verse", "-out", out}, `-kind "verse" is neither prose nor source`},
		{"no output", nil, "-out is missing"},
		{"same file twice", []string{"-out", out, "-valid", out}, "give two files"},
		{"fraction", []string{"-out", out, "-valid-fraction", "1"}, "-valid-fraction 1 is not between 0 and 1"},
		{"fraction not a number", []string{"-out", out, "-valid-fraction", "NaN"}, "-valid-fraction NaN is not between 0 and 1"},
		{"negative size", []string{"-out", out, "-max-bytes", "-1"}, "-max-bytes -1 is negative"},
		{"argument", []string{"-out", out, "prose"}, `unexpected argument "prose"`},
		{"nothing held out", []string{"-goroot", goroot, "-out", out, "-valid", out + "v", "-valid-fraction", "0.0001"}, "change -valid-fraction 0.0001"},
		{"no room", []string{"-goroot", goroot, "-out", out, "-max-bytes", "10"}, "-max-bytes 10 is too small"},
		{"unwritable", []string{"-goroot", goroot, "-out", filepath.Join(broken, "src", "bad", "bad.go", "x")}, "making the directory of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, run(tt.args, io.Discard), tt.want)
			require.NoFileExists(t, out)
		})
	}
}

func TestReportAndNoLeftovers(t *testing.T) {
	dir := t.TempDir()
	out, valid := filepath.Join(dir, "train.txt"), filepath.Join(dir, "valid.txt")
	var log bytes.Buffer
	require.NoError(t, run([]string{"-goroot", fakeGOROOT(t), "-kind", "source", "-out", out, "-valid", valid, "-valid-fraction", "0.5"}, &log))
	require.Contains(t, log.String(), out+": ")
	require.Contains(t, log.String(), "(source, held out)")

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)

	all := documents(corpus(t, fakeGOROOT(t), "-kind", "source"))
	both := append(documents(readFile(t, out)), documents(readFile(t, valid))...)
	require.ElementsMatch(t, all, both)
}

// drawDocuments makes documents of several packages with distinct blocks.
func drawDocuments(t *rapid.T) []document {
	n := rapid.IntRange(1, 30).Draw(t, "documents")
	docs := make([]document, n)
	for i := range docs {
		d := document{pkg: fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "package")), name: fmt.Sprint("d", i)}
		d.header = rapid.IntRange(0, 1).Draw(t, "header")
		for b := rapid.IntRange(1, 6).Draw(t, "blocks") + d.header; b > 0; b-- {
			d.blocks = append(d.blocks, fmt.Sprint(i, b, strings.Repeat("x", rapid.IntRange(0, 50).Draw(t, "size"))))
		}
		docs[i] = d
	}
	return docs
}

// A document's side of the split depends on its own name only.
func TestSplitDoesNotDependOnOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := drawDocuments(t)
		fraction := rapid.Float64Range(0.01, 0.99).Draw(t, "fraction")
		_, held := split(docs, fraction)
		some := rapid.Permutation(docs).Draw(t, "order")[:rapid.IntRange(1, len(docs)).Draw(t, "kept")]
		_, heldOfSome := split(some, fraction)

		names := make(map[string]bool)
		for _, d := range held {
			names[d.name] = true
		}
		want := 0
		for _, d := range some {
			if names[d.name] {
				want++
			}
		}
		require.Len(t, heldOfSome, want)
		for _, d := range heldOfSome {
			require.True(t, names[d.name])
		}
	})
}

func TestSplitFraction(t *testing.T) {
	docs := make([]document, 20000)
	for i := range docs {
		docs[i].name = fmt.Sprint(i)
	}
	_, held := split(docs, 0.1)
	require.InDelta(t, 2000, len(held), 130) // three standard deviations
}

func TestSampleWithinLimitAndIndependentOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := drawDocuments(t)
		limit := rapid.IntRange(0, 3000).Draw(t, "limit")
		text := join(sample(docs, limit))
		require.LessOrEqual(t, len(text), max(limit, 1)) // nothing is one newline
		again := join(sample(rapid.Permutation(docs).Draw(t, "order"), limit))
		require.Equal(t, string(text), string(again))

		whole := string(join(docs))
		for _, d := range sample(docs, limit) {
			require.Greater(t, len(d.blocks), d.header)
			require.Contains(t, whole, strings.Join(d.blocks, blockSeparator))
		}
		require.Equal(t, whole, string(join(sample(docs, len(whole)+2))))
	})
}

func TestSampleHearsEveryPackage(t *testing.T) {
	large := document{pkg: "large", name: "large"}
	for i := 0; i < 1000; i++ {
		large.blocks = append(large.blocks, fmt.Sprintf("block %4d of the large one", i))
	}
	docs := []document{large}
	for i := 0; i < 9; i++ {
		docs = append(docs, document{pkg: fmt.Sprint(i), name: fmt.Sprint(i), blocks: []string{strings.Repeat("y", 90)}})
	}
	kept := sample(docs, 2000)
	require.Len(t, kept, 10)
	require.Greater(t, len(join(kept)), 1950)
}

func TestCommonLimit(t *testing.T) {
	sizes := map[string]int{"a": 10, "b": 20, "c": 100, "d": 200}
	require.Equal(t, 35, commonLimit(sizes, 100)) // 10 + 20 + 35 + 35
	require.Equal(t, 2, commonLimit(sizes, 8))
	require.Equal(t, 200, commonLimit(sizes, 1000))
	require.Zero(t, commonLimit(nil, 1000))
}

// The Go installation that runs the tests gives text of both kinds. One
// subtree is enough: under the race detector the whole takes half a minute.
func TestRealGOROOT(t *testing.T) {
	goroot, err := findGOROOT()
	require.NoError(t, err)
	if _, err := listPackages(goroot); err != nil {
		t.Skip(err)
	}
	part := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(goroot, "src", "go"), filepath.Join(part, "src")))

	prose := corpus(t, part, "-kind", "prose")
	require.Greater(t, len(prose), 200_000)
	require.Less(t, strings.Count(prose, "{"), len(prose)/1000)

	source := corpus(t, part, "-kind", "source", "-max-bytes", "400000")
	require.InDelta(t, 380_000, len(source), 20_000)
	require.Greater(t, strings.Count(source, "{"), len(source)/200)
}
