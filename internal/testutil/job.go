package testutil

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/goggml/ggml/internal/progress"
)

// A Job is a function that runs in a process of its own: this test program,
// started again. Its peak memory is then that of the function, and not of all
// that ran before. Jobs are package variables, so that both processes have
// them, and [Main] starts them.
type Job[In, Out any] struct{ name string }

const jobKey = "GOGGML_TEST_JOB"

var jobs = map[string]func(r io.Reader, w io.Writer) error{}

// outcome is what the other process answers.
type outcome[Out any] struct {
	Result Out
	Peak   uint64
}

// NewJob gives a function a name. What goes in and comes out travels as JSON.
func NewJob[In, Out any](name string, f func(In) (Out, error)) *Job[In, Out] {
	if jobs[name] != nil {
		panic("testutil: two jobs are called " + name)
	}
	jobs[name] = func(r io.Reader, w io.Writer) error {
		var in In
		d := json.NewDecoder(r)
		if err := d.Decode(&in); err != nil {
			return err
		}
		go exitWithParent(r)
		result, err := f(in)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(outcome[Out]{result, progress.PeakRSS()})
	}
	return &Job[In, Out]{name}
}

// exitWithParent ends the process when the one that started it does, however
// that ends: its end of the pipe is then closed.
func exitWithParent(r io.Reader) {
	io.Copy(io.Discard, r)
	fmt.Fprintln(os.Stderr, "the process that waits for this one has ended")
	os.Exit(1)
}

// Run runs the function on in, and returns its result and the largest resident
// memory of its process in bytes, 0 where that is unknown.
func (j *Job[In, Out]) Run(in In) (result Out, peak uint64, err error) {
	input, err := json.Marshal(in)
	if err != nil {
		return result, 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return result, 0, err
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), jobKey+"="+j.name)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		return result, 0, err
	}
	defer stdin.Close()                 // only now: closed earlier, it would end the process
	go stdin.Write(append(input, '\n')) // a number has no other end
	answer, err := c.Output()
	if err != nil {
		return result, 0, fmt.Errorf("the job %s: %w", j.name, err)
	}
	var o outcome[Out]
	if err := json.Unmarshal(answer, &o); err != nil {
		return result, 0, fmt.Errorf("the job %s answered %q: %w", j.name, answer, err)
	}
	return o.Result, o.Peak, nil
}

// runJob runs the job that this process was started for, if it was.
func runJob() (code int, ran bool) {
	name := os.Getenv(jobKey)
	if name == "" {
		return 0, false
	}
	err := errors.New("there is no such job")
	if f := jobs[name]; f != nil {
		err = f(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the job %s: %v\n", name, err)
		return 1, true
	}
	return 0, true
}
