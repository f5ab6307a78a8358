package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"

	"github.com/goggml/ggml/internal/test/need"
)

const sample = `form: quick
date: 2026-01-02
cores: 2
suite: training
distance: 56
goos: linux
BenchmarkStep/model=28M/base=Q8_0-2         	       3	       800.5 tok/s	       240 peak-MB
BenchmarkStep/model=28M/base=Q8_0-2         	       3	       900.5 tok/s	       240 peak-MB
BenchmarkStep/model=28M/base=llama-2-2      	       3	       400.25 tok/s
BenchmarkStop/base=llama-2-2                	       3	       200.125 tok/s
BenchmarkStep/large/F32-2                   	       1	       100 tok/s
--- SKIP: BenchmarkLong
    long_test.go:12: takes minutes
distance: 349
alien: 0.42
suite: context
BenchmarkScaling/by=context/context=1024-2  	       1	       12.5 ms/tok	 3 loss@2	 4 loss@1
BenchmarkScaling/by=context/context=256-2   	       1	       10 ms/tok
PASS
alien: 0.02
took: 3s
`

func parsed(t *testing.T) *resultSet {
	s := &resultSet{facts: map[string]string{}}
	require.NoError(t, s.add(sample))
	return s
}

func TestParseResults(t *testing.T) {
	s := parsed(t)
	require.False(t, s.full())
	require.Equal(t, "2026-01-02", s.facts[keyDate])
	require.Equal(t, 0.42, s.alien)
	require.Equal(t, []float64{56, 349}, s.distances)
	require.Equal(t, []string{"Long: takes minutes"}, s.skipped)
	require.Len(t, s.results, 7)
	require.Equal(t, result{
		suite: "training", bench: "Step", keys: map[string]string{"model": "28M", "base": "llama-2"}, values: map[string]float64{"tok/s": 400.25},
	}, s.results[2])
	require.Equal(t, map[string]string{"1": "large", "2": "F32"}, s.results[4].keys)
	median, ok := s.median("Step", where{"base": "Q8_0"}, "tok/s")
	require.True(t, ok)
	require.Equal(t, 850.5, median)
	require.ErrorContains(t, s.add("BenchmarkX 1 many ns/op\n"), "BenchmarkX 1 many ns/op")
	require.ErrorContains(t, s.add("took: long\n"), "took: long")
}

// A page has the results of all suites that have a file, and is full if none is missing.
func TestReadResults(t *testing.T) {
	folder := t.TempDir()
	suites := []suite{{name: "first"}, {name: "second"}}
	_, err := readResults(folder, suites)
	require.ErrorContains(t, err, "there are no results in "+folder)
	write := func(s suite, cores string) {
		text := "form: full\ncores: " + cores + "\nsuite: " + s.name + "\nBenchmarkStep-" + cores + " 1 8 tok/s\ntook: 40.4s\n"
		require.NoError(t, writeFile(filepath.Join(folder, s.file()), []byte(text)))
	}
	write(suites[1], "2")
	s := need.Value(readResults(folder, suites))(t)
	require.Equal(t, "only second", s.facts[keyForm])
	write(suites[0], "2")
	s = need.Value(readResults(folder, suites))(t)
	require.True(t, s.full())
	require.Equal(t, "1m21s", s.facts[keyTook])
	require.Equal(t, []string{"first", "second"}, []string{s.results[0].suite, s.results[1].suite})
	write(suites[0], "4")
	_, err = readResults(folder, suites)
	require.ErrorContains(t, err, `suite second: the line "cores: 2": it was "4"`)
}

func TestTable(t *testing.T) {
	first := where{"base": "Q8_0"}
	text := need.Value(table{
		from: []string{"Step"}, rows: []key{{"model", "model"}, {"base", "base"}, {"none", "never shown"}}, where: where{"model": "28M"},
		columns: []column{
			{head: "tokens/s", unit: "tok/s", format: "%.1f"},
			{head: "ratio", unit: "tok/s", format: "%.3f", over: &column{unit: "tok/s", where: first}},
			{head: "MB", unit: "peak-MB", format: "%.0f"},
			{head: "never shown", unit: "B/op", format: "%.0f"},
		},
	}.render("", parsed(t)))(t)
	require.Equal(t, `| model | base | tokens/s | ratio | MB |
| --- | --- | ---: | ---: | ---: |
| 28M | Q8_0 | 850.5 | 1.000 | 240 |
| 28M | llama-2 | 400.2 | 0.471 | – |
`, text)
}

func TestChart(t *testing.T) {
	s := parsed(t)
	points := need.Value(line{from: "Scaling", unit: "ms/tok"}.points(s, "context"))(t)
	require.Equal(t, plotter.XYs{{X: 256, Y: 10}, {X: 1024, Y: 12.5}}, points)
	points = need.Value(line{from: "Scaling", unit: "loss"}.points(s, "@"))(t)
	require.Equal(t, plotter.XYs{{X: 1, Y: 4}, {X: 2, Y: 3}}, points)
	_, err := line{from: "Step", unit: "tok/s"}.points(s, "base")
	require.ErrorContains(t, err, "is not a number")
}

// The page shows the measurements, and its links lead to files.
func TestPage(t *testing.T) {
	folder := t.TempDir()
	p := page{file: "README.md", title: "Title", text: "Text.", sections: []section{
		scalingSection, {title: "Nothing", views: []view{table{from: []string{"Missing"}}}},
	}}
	require.NoError(t, p.write(folder, parsed(t)))
	data := need.Value(os.ReadFile(filepath.Join(folder, "README.md")))(t)
	text := string(data)
	require.Contains(t, text, "# Title\n\nText.\n\n**This was not a full run (quick): its numbers are rough.**")
	require.Contains(t, text, "| cores | 2 |")
	require.Contains(t, text, "| a cache line to another core and back | 56 to 349 ns |")
	require.Contains(t, text, "Other programs used 0.4 cores")
	require.Contains(t, text, "| 1024 | 12.50 |")
	require.Contains(t, text, "- Long: takes minutes\n")
	require.NotContains(t, text, "Nothing")
	links := regexp.MustCompile(`\]\((\S+\.svg)\)`).FindAllStringSubmatch(text, -1)
	require.Len(t, links, 1)
	require.FileExists(t, filepath.Join(folder, links[0][1]))
	leftover := need.Value(filepath.Glob(filepath.Join(folder, "*.tmp")))(t)
	require.Empty(t, leftover)
}

func TestChoose(t *testing.T) {
	p := need.Value(findPage("all"))(t)
	chosen := need.Value(p.choose("scaling, binding"))(t)
	require.Equal(t, []string{"scaling", "binding"}, suiteNames(chosen))
	_, err := p.choose("speed")
	require.EqualError(t, err, `there is no suite "speed"; the suites are `+"binding, training, scaling, context, overhead, finetune, generation, cache")
	_, err = findPage("none")
	require.Error(t, err)
}

// Suites name folders that have their benchmarks.
func TestSuites(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Benchmark\w+)\(`)
	for _, p := range pages {
		for _, s := range p.suites {
			var names []string
			for _, file := range need.Value(filepath.Glob(filepath.Join("../..", s.folder, "*_test.go")))(t) {
				for _, name := range declared.FindAllStringSubmatch(string(need.Value(os.ReadFile(file))(t)), -1) {
					names = append(names, name[1])
				}
			}
			for _, pattern := range strings.Split(strings.ReplaceAll(s.bench, "|^", "\n^"), "\n") {
				top, _, _ := strings.Cut(pattern, "/") // others match sub-benchmarks
				require.True(t, slices.ContainsFunc(names, regexp.MustCompile(top).MatchString), "no file of %q has a benchmark %s", s.folder, top)
			}
		}
	}
}

// The remaining time follows the pace of the finished suites.
func TestClock(t *testing.T) {
	a, b := suite{name: "a", full: time.Minute}, suite{name: "b", full: 2 * time.Minute}
	c := newClock(false, []suite{a, b})
	now := c.begun
	c.now = func() time.Time { return now }
	c.begin(a)
	require.Equal(t, 3*time.Minute, c.left())
	now = now.Add(3 * time.Minute) // three times as long as planned
	require.Equal(t, 2*time.Minute, c.left())
	c.end(a)
	c.begin(b)
	require.Equal(t, 6*time.Minute, c.left())
}

func TestOthersUseTheProcessor(t *testing.T) {
	l := startLoad()
	if !l.known {
		t.Skip("this system does not tell")
	}
	for begun := time.Now(); ownTime()-l.ours < 100*time.Millisecond; { // our own work, which does not count
		require.Less(t, time.Since(begun), 20*time.Second)
	}
	ours, elapsed := ownTime()-l.ours, time.Since(l.begun) // no more than at the measurement
	cores, ok := l.others()
	require.True(t, ok)
	all, _ := processorTime() // no less
	require.LessOrEqual(t, cores*elapsed.Seconds(), max(0, all-l.all-ours).Seconds())
}
