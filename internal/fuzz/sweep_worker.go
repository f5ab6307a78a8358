package fuzz

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/goggml/ggml"
)

// sweepWork tries the variations whose numbers it reads from r. It reports each attempt on w before and after.
func sweepWork(unchecked bool, r io.Reader, w io.Writer) error {
	s, err := newSweeper()
	if err != nil {
		return err
	}
	for {
		var i int
		var v variation
		if _, err := fmt.Fscanln(r, &i, &v.op, &v.operand, &v.typ, &v.layout, &v.flat); err != nil {
			return nil
		}
		fmt.Fprintf(w, "try %d\n", i)
		o, err := s.try(v, unchecked)
		fmt.Fprintf(w, "result %d %s %q\n", i, o, fmt.Sprint(err))
		if o == spoils {
			return fmt.Errorf("this process is spoilt")
		}
		if errors.Is(err, ggml.ErrBroken) {
			if s.machine, err = s.machine.reopened(); err != nil {
				return err
			}
			for _, t := range s.bases {
				t.program.machine = s.machine
			}
		}
	}
}

// Sweep judges every step-th variation in subprocesses. It calls the ops with their checks, and repeats the calls that
// the checks refuse without checks.
func Sweep(step int, command func(unchecked bool) *exec.Cmd) ([]verdict, error) {
	s, err := newSweeper()
	if err != nil {
		return nil, err
	}
	defer s.machine.Close()
	list := s.list()
	var verdicts []verdict
	var all, left []int
	for i := 0; i < len(list); i += step {
		all = append(all, i)
	}
	checked, err := sweepList(list, all, func() *exec.Cmd { return command(false) })
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if checked[i].outcome == refused {
			left = append(left, i)
		}
	}
	raw, err := sweepList(list, left, func() *exec.Cmd { return command(true) })
	for _, i := range all {
		verdicts = append(verdicts, verdict{list[i], checked[i].outcome, raw[i].outcome, checked[i].detail})
	}
	return verdicts, err
}

type report struct {
	outcome outcome
	detail  string
}

// sweepList tries the variations in subprocesses; each continues where the previous one died.
func sweepList(list []variation, numbers []int, command func() *exec.Cmd) (map[int]report, error) {
	reports := map[int]report{}
	for len(numbers) > 0 {
		last, err := sweepOnce(list, numbers, reports, command())
		if err == nil {
			break
		}
		if last < 0 {
			return nil, err
		}
		if _, told := reports[last]; !told {
			reports[last] = report{dies, err.Error()}
		}
		for numbers[0] != last {
			numbers = numbers[1:]
		}
		numbers = numbers[1:]
	}
	return reports, nil
}

// sweepOnce runs a subprocess, and returns the last variation that it tried.
func sweepOnce(list []variation, numbers []int, reports map[int]report, cmd *exec.Cmd) (last int, err error) {
	var stdin strings.Builder
	for _, i := range numbers {
		v := list[i]
		fmt.Fprintln(&stdin, i, v.op, v.operand, int32(v.typ), int(v.layout), v.flat)
	}
	stderr := &tail{}
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin.String()), stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return -1, err
	}
	if err := cmd.Start(); err != nil {
		return -1, err
	}
	last = -1
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r report
		fmt.Sscanf(lines.Text(), "try %d", &last)
		if n, _ := fmt.Sscanf(lines.Text(), "result %d %s %q", &last, &r.outcome, &r.detail); n == 3 {
			reports[last] = r
		}
	}
	if err := cmd.Wait(); err != nil {
		return last, fmt.Errorf("%w: %s", err, stderr)
	}
	return last, nil
}
