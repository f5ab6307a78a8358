package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A result is one line of a benchmark. In the name BenchmarkStep/model=28M/base=Q4_K, bench is Step, and model
// and base are keys. A part without a key has its position as the key: "1", "2" and so on.
type result struct {
	suite, bench string
	keys         map[string]string
	values       map[string]float64 // by unit
}

// A resultSet is the output of suites in Go's benchmark format, in which lines "key: value" apply to the results
// after them.
type resultSet struct {
	results   []result
	facts     map[string]string // the last value of each key
	took      time.Duration     // of all suites
	alien     float64           // maximum number of cores that other programs used during a suite
	distances []float64         // of two cores before and after each suite, in ns
	skipped   []string          // benchmarks that could not run, with the reason
}

// Keys that this program writes.
const (
	keySuite     = "suite"     // suite of the results after it
	keyForm      = "form"      // full, or what was omitted
	keyDate      = "date"      // of the run
	keyLlama     = "llama.cpp" // version
	keyPyTorch   = "pytorch"   // versions of PyTorch and PEFT
	keyTook      = "took"      // time of a suite
	keyAlien     = "alien"     // cores that other programs used during a suite
	keyDistance  = "distance"  // of two cores before or after a suite, in ns
	keyCores     = "cores"     // of the machine
	keyProcessor = "processor"
	fullForm     = "full" // value of keyForm
)

// keyGEMMLibrary names the GEMM library; the benchmarks write it.
const keyGEMMLibrary = "gemm-library"

func (s *resultSet) full() bool { return s.facts[keyForm] == fullForm }

// readResults reads the results of a page's suites from their files in a folder.
func readResults(folder string, suites []suite) (*resultSet, error) {
	all := &resultSet{facts: map[string]string{}}
	var found []string
	for _, s := range suites {
		data, err := os.ReadFile(filepath.Join(folder, s.file()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := all.add(string(data)); err != nil {
			return nil, fmt.Errorf("suite %s: %w", s.name, err)
		}
		found = append(found, s.name)
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("there are no results in %s; make them with a run", folder)
	case len(found) < len(suites) && all.full():
		all.facts[keyForm] = "only " + strings.Join(found, ",")
	}
	return all, nil
}

// add parses the output of a suite.
func (s *resultSet) add(text string) error {
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
			if err := s.addFact(key, value); err != nil {
				return fmt.Errorf("the line %q: %w", line, err)
			}
			if key == keyCores && value != "1" {
				suffix = "-" + value // which Go adds to each name
			}
			continue
		}
		r, ok, err := parseResult(line, suffix)
		if err != nil {
			return err
		}
		if ok {
			r.suite = s.facts[keySuite]
			s.results = append(s.results, r)
		}
	}
	return nil
}

func (s *resultSet) addFact(key, value string) error {
	before, known := s.facts[key]
	switch key {
	case keyProcessor, keyCores:
		if known && value != before {
			return fmt.Errorf("it was %q for the suites before; measure all of them on one machine", before)
		}
	case keyTook:
		took, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		s.took += took
		value = s.took.Round(time.Second).String()
	case keyAlien, keyDistance:
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return err
		}
		if key == keyDistance {
			s.distances = append(s.distances, number)
		} else {
			s.alien = max(s.alien, number)
		}
	}
	s.facts[key] = value
	return nil
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
