// Command equal is the part of scripts/equal-against that only this tree has: it writes the models that both
// trees compute, and compares the results. Folder run has the program that computes them.
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/model"
)

func main() {
	if len(os.Args) < 3 {
		fail(errors.New("usage: equal models FOLDER [ARCHITECTURE...] | equal compare THEIRS OURS [NEAR]"))
	}
	switch os.Args[1] {
	case "models":
		makeModels(os.Args[2], os.Args[3:])
	case "compare":
		near := 0.0
		if len(os.Args) > 4 && os.Args[4] != "" {
			var err error
			if near, err = strconv.ParseFloat(os.Args[4], 64); err != nil {
				fail(err)
			}
		}
		if !compare(os.Args[2], os.Args[3], near) {
			os.Exit(1)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "equal:", err)
	os.Exit(2)
}

// makeModels writes a small random model of each named architecture, or of all, in each type.
func makeModels(folder string, names []string) {
	if len(names) == 0 {
		names = llmtest.Architectures()
	}
	for _, name := range names {
		for _, typ := range []ggml.Type{ggml.F32, ggml.Q8_0, ggml.Q4_K} {
			path := llmtest.WideArchFile(program{folder: folder}, name, typ)
			if !trains(path) {
				if err := os.Remove(path); err != nil {
					fail(err)
				}
				break
			}
			if err := os.Rename(path, filepath.Join(folder, fmt.Sprintf("%s-%s.gguf", name, typ))); err != nil {
				fail(err)
			}
		}
	}
}

// trains reports whether a model can be trained and decoded; text diffusion models cannot.
func trains(path string) bool {
	m, err := model.Load(path, model.LoadOptions{})
	if err != nil {
		fail(err)
	}
	defer m.Close()
	return m.Architecture().IsCausal()
}

// A program stands in for a test, which functions that write models expect.
type program struct {
	testing.TB
	folder string
}

func (program) Helper() {}

func (program) Name() string { return "equal" }

func (program) Errorf(format string, args ...any) { fail(fmt.Errorf(format, args...)) }

func (program) FailNow() { os.Exit(2) }

func (p program) TempDir() string { return p.folder }

// compare compares the files of two folders, reports how much each differs, and returns whether all are equal.
// Numbers that differ by at most near of the largest are counted separately.
func compare(theirs, ours string, near float64) bool {
	a, b := list(theirs), list(ours)
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
	differ, rounded := 0, 0
	for _, name := range all {
		what := ""
		switch {
		case !slices.Contains(a, name):
			what = "only this tree has it"
		case !slices.Contains(b, name):
			what = "only the other commit has it"
		default:
			var by float64
			if what, by = difference(name, read(theirs, name), read(ours, name)); what != "" && by <= near {
				rounded++
				continue
			}
		}
		if what != "" {
			differ++
			fmt.Printf("%s: %s\n", name, what)
		}
	}
	fmt.Printf("%d of %d results are equal to the byte", len(all)-differ-rounded, len(all))
	if near > 0 {
		fmt.Printf(", %d more to %v of their largest number", rounded, near)
	}
	fmt.Println()
	return differ == 0 && len(all) > 0
}

func list(folder string) (files []string) {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		files = append(files, name)
		return err
	})
	if err != nil {
		fail(err)
	}
	return files
}

func read(folder, name string) []byte {
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		fail(err)
	}
	return data
}

// difference describes how two results differ; for numbers, relative to the largest. It returns "" if they are
// equal.
func difference(name string, theirs, ours []byte) (what string, by float64) {
	by = math.Inf(1)
	switch {
	case bytes.Equal(theirs, ours):
		return "", 0
	case strings.HasSuffix(name, ".txt"):
		return fmt.Sprintf("%s, and was %s", bytes.TrimSpace(ours), bytes.TrimSpace(theirs)), by
	case len(theirs) != len(ours):
		return fmt.Sprintf("%d bytes, and was %d", len(ours), len(theirs)), by
	case !strings.HasSuffix(name, ".f64"):
		return "other bytes", by
	}
	a, b := floats(theirs), floats(ours)
	var largest, most float64
	first, count := -1, 0
	for i := range a {
		largest = max(largest, math.Abs(a[i]))
		if a[i] != b[i] {
			if first < 0 {
				first = i
			}
			count++
			most = max(most, math.Abs(a[i]-b[i]))
		}
	}
	by = most / largest
	return fmt.Sprintf("%d of %d numbers, by up to %.1e of the largest, the first is number %d", count, len(a), by, first), by
}

func floats(data []byte) []float64 {
	values := make([]float64, len(data)/8)
	for i := range values {
		values[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return values
}
