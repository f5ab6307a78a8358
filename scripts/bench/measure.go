package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/filelink"
	"github.com/goggml/ggml/scripts/machine"
)

// measure runs the suites, with some rounds beside other programs, and writes what each of them prints, with the machine's facts,
// to a file in the folder of results as soon as it ends.
func measure(ctx context.Context, o options, rounds int, chosen []suite, folder string) error {
	temp := filepath.Join(workFolder, "tmp")
	if err := removeRests(temp); err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.MkdirAll(temp, 0o777); err != nil {
		return err
	}
	temp, err := filepath.Abs(temp)
	if err != nil {
		return err
	}
	r := &runner{options: o, rounds: rounds, temp: temp, clock: newClock(o.quick, chosen)}
	var failed []string
	for _, s := range chosen {
		err := r.run(ctx, s)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", s.name, err)
			failed = append(failed, s.name)
			continue
		}
		if err := writeFile(filepath.Join(folder, s.file()), []byte(r.out.String())); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		names := strings.Join(failed, ",")
		return fmt.Errorf("failed: %s; the page is as before; -only %s measures what is missing", names, names)
	}
	return nil
}

// removeRests removes the temporary files of killed runs.
func removeRests(temp string) error {
	rests, err := filepath.Glob(filepath.Join(workFolder, "*.tmp"))
	if err != nil {
		return err
	}
	for _, path := range append(rests, temp) {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// form returns whether suites are measured in full, or how else.
func (o options) form() string {
	switch {
	case o.quick:
		return "quick"
	case o.benchtime != "":
		return "benchtime " + o.benchtime
	}
	return fullForm
}

func (o options) time() string {
	switch {
	case o.benchtime != "":
		return o.benchtime
	case o.quick:
		return "1x"
	}
	return "2s"
}

// A runner runs suites one after the other.
type runner struct {
	options options
	rounds  int    // samples of each program that others stand beside
	temp    string // folder for temporary files
	clock   *clock
	out     strings.Builder // the results of the suite that runs
}

func (r *runner) fact(key, value string) { fmt.Fprintf(&r.out, "%s: %s\n", key, value) }

func (r *runner) factDistance() {
	if d := machine.CoreDistance(); d > 0 {
		r.fact(keyDistance, strconv.FormatInt(d.Nanoseconds(), 10))
	}
}

// run builds the tests of a package, and runs the benchmarks of the suite.
func (r *runner) run(ctx context.Context, s suite) error {
	r.clock.begin(s)
	defer r.clock.end(s)
	r.out.Reset()
	r.fact(keyForm, r.options.form())
	r.fact(keyDate, time.Now().UTC().Format(time.DateOnly))
	for _, f := range machineFacts() {
		r.fact(f.key, f.value)
	}
	program := filepath.Join(r.temp, s.name+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+s.folder)
	build.Stderr = os.Stderr
	ownGroup(build)
	if err := build.Run(); err != nil {
		return fmt.Errorf("building the tests of %s: %w", s.folder, err)
	}
	args := []string{"-test.run=^$", "-test.bench=" + s.bench, "-test.benchtime=" + r.options.time(), "-test.timeout=3h"}
	rounds := cmp.Or(r.rounds, 5)
	if r.options.quick {
		args, rounds = append(args, "-test.short"), 1
	}
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = s.folder
	c.Env = append(os.Environ(), "TMPDIR="+r.temp, "GOGGML_BENCH=facts", "GOGGML_BENCH_ROUNDS="+strconv.Itoa(rounds))
	c.Stderr = os.Stderr
	ownGroup(c)
	stdout, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	r.factDistance()
	busy := startLoad()
	if err := c.Start(); err != nil {
		return err
	}
	r.fact(keySuite, s.name)
	found, readErr := r.read(s, stdout)
	if err := c.Wait(); err != nil {
		return fmt.Errorf("its benchmarks end with %w", err)
	}
	if readErr != nil {
		return readErr
	}
	if !found {
		return errors.New("it has no benchmark " + s.bench + " in " + s.folder)
	}
	r.factDistance()
	if cores, ok := busy.others(); ok {
		r.fact(keyAlien, fmt.Sprintf("%.2f", cores))
		if cores > most {
			fmt.Fprintf(os.Stderr, "bench: other programs used %.1f cores during %s: repeat it on an idle machine\n", cores, s.name)
		}
	}
	r.fact(keyTook, r.clock.spent().String())
	return nil
}

// read records the output of a suite, and shows its results.
func (r *runner) read(s suite, from io.Reader) (found bool, err error) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		line := scanner.Text()
		fmt.Fprintln(&r.out, line)
		if strings.HasPrefix(line, "Benchmark") || strings.HasPrefix(line, "---") {
			found = true
			fmt.Fprintf(os.Stderr, "%s  %s\n", r.clock, strings.Join(strings.Fields(line), " "))
		}
	}
	return found, scanner.Err()
}

// writeFile writes a file completely or not at all.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return filelink.Replace(path, data)
}
