package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A result is one line of a benchmark. In the name BenchmarkStep/model=28M/base=Q4_K, bench is Step, and model
// and base are keys. A part without a key has its position as the key: "1", "2" and so on.
type result struct {
	suite, bench string
	keys         map[string]string
	values       map[string]float64 // by unit
}

// A resultSet is the output of a run in Go's benchmark format, in which lines "key: value" apply to the results
// after them.
type resultSet struct {
	results   []result
	facts     map[string]string // the last value of each key
	alien     float64           // maximum number of cores that other programs used during a suite
	distances []float64         // of two cores before and after each suite, in ns
	skipped   []string          // benchmarks that could not run, with the reason
}

// Keys that this program writes.
const (
	keySuite    = "suite"     // suite of the results after it
	keyForm     = "form"      // full, or what was omitted
	keyDate     = "date"      // of the run
	keyLlama    = "llama.cpp" // version
	keyPyTorch  = "pytorch"   // versions of PyTorch and PEFT
	keyTook     = "took"      // time of the run
	keyAlien    = "alien"     // cores that other programs used during a suite
	keyDistance = "distance"  // of two cores before or after a suite, in ns
	keyCores    = "cores"     // of the machine
	fullForm    = "full"      // value of keyForm
)

// keyGEMMLibrary names the GEMM library; the benchmarks write it.
const keyGEMMLibrary = "gemm-library"

func (s *resultSet) full() bool { return s.facts[keyForm] == fullForm }

func readResults(path string) (*resultSet, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("there are no results; make them with a run: %w", err)
	}
	return parseResults(string(data))
}

func parseResults(text string) (*resultSet, error) {
	s := &resultSet{facts: map[string]string{}}
	suffix := ""
	skipped := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "--- SKIP: Benchmark"); ok {
			skipped = name
			continue
		}
		if reason := strings.TrimSpace(line); skipped != "" && strings.HasPrefix(line, " ") {
			_, reason, _ = strings.Cut(reason, ": ") // the line of the source
			s.skipped = append(s.skipped, skipped+": "+reason)
		}
		skipped = ""
		if key, value, ok := strings.Cut(line, ": "); ok && isKey(key) {
			s.facts[key] = value
			switch {
			case key == keyCores && value != "1":
				suffix = "-" + value // which Go adds to each name
			case key == keyAlien || key == keyDistance:
				number, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return nil, fmt.Errorf("the line %q: %w", line, err)
				}
				if key == keyDistance {
					s.distances = append(s.distances, number)
				} else {
					s.alien = max(s.alien, number)
				}
			}
			continue
		}
		r, ok, err := parseResult(line, suffix)
		if err != nil {
			return nil, err
		}
		if ok {
			r.suite = s.facts[keySuite]
			s.results = append(s.results, r)
		}
	}
	return s, nil
}

func isKey(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' && r != '.' })
}

// parseResult reads "BenchmarkName-2  10  1.5 ns/op  20 tok/s".
func parseResult(line, suffix string) (result, bool, error) {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
		return result{}, false, nil
	}
	parts := strings.Split(strings.TrimSuffix(fields[0], suffix), "/")
	r := result{bench: strings.TrimPrefix(parts[0], "Benchmark"), keys: map[string]string{}, values: map[string]float64{}}
	for i, part := range parts[1:] {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			key, value = strconv.Itoa(i+1), part
		}
		r.keys[key] = value
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return r, false, fmt.Errorf("the result %q: %w", line, err)
		}
		r.values[fields[i+1]] = v
	}
	return r, true, nil
}

// where are the values that keys must have.
type where map[string]string

func (r *result) matches(bench string, w where) bool {
	if r.bench != bench {
		return false
	}
	for key, want := range w {
		if r.keys[key] != want {
			return false
		}
	}
	return true
}

// median returns the median of a unit over all results that match.
func (s *resultSet) median(bench string, w where, unit string) (float64, bool) {
	var values []float64
	for _, r := range s.results {
		if v, ok := r.values[unit]; ok && r.matches(bench, w) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 0 {
		return (values[middle-1] + values[middle]) / 2, true
	}
	return values[middle], true
}
