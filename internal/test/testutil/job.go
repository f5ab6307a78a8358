package testutil

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/goggml/ggml/internal/rss"
)

// A Job is a function that runs in a separate process: this test program, started again. So its peak memory is
// the function's alone. Jobs are package variables, because both processes need them; [Main] runs them.
type Job[In, Out any] struct{ name string }

const jobKey = "GOGGML_TEST_JOB"

var jobs = map[string]func(r io.Reader, w io.Writer) error{}

// NewJob names a function as a job. Input and output are passed as JSON.
func NewJob[In, Out any](name string, f func(In) (Out, error)) *Job[In, Out] {
	return NewProcess(name, func(in In, serve func(sample func() (Out, error)) error) error {
		return serve(func() (Out, error) { return f(in) })
	})
}

// NewProcess names a job that prepares something and then calls serve, which takes a sample each time that the
// parent requests one.
func NewProcess[In, Out any](name string, f func(in In, serve func(sample func() (Out, error)) error) error) *Job[In, Out] {
	if jobs[name] != nil {
		panic("testutil: two jobs are called " + name)
	}
	jobs[name] = func(r io.Reader, w io.Writer) error {
		var in In
		d := json.NewDecoder(r)
		if err := d.Decode(&in); err != nil {
			return err
		}
		asked := make(chan bool)
		go hear(d, asked)
		return f(in, func(sample func() (Out, error)) error {
			answer := json.NewEncoder(w)
			for <-asked {
				out, err := sample()
				if err != nil {
					return err
				}
				if err := answer.Encode(outcome[Out]{out, rss.Peak()}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return &Job[In, Out]{name}
}

// hear forwards requests for samples, and ends the process when its parent ends, even if it is killed: the
// parent's end of the pipe is then closed.
func hear(d *json.Decoder, asked chan<- bool) {
	for {
		var more bool
		if d.Decode(&more) != nil {
			fmt.Fprintln(os.Stderr, "the process that waits for this one has ended")
			os.Exit(1)
		}
		asked <- more
	}
}

// Run takes one sample, and returns it with the peak resident memory of its process in bytes, or 0 if unknown.
func (j *Job[In, Out]) Run(in In) (result Out, peak uint64, err error) {
	s, err := j.Start(in)
	if err != nil {
		return result, 0, err
	}
	result, err = s.Sample()
	return result, s.Peak, errors.Join(err, s.Close())
}

// Start starts the process.
func (j *Job[In, Out]) Start(in In) (*Process[Out], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), jobKey+"="+j.name)
	return StartProcess[Out]("the job "+j.name, c, in)
}

// A Process takes samples. It reads its input as a line of JSON, then for each sample a line "true", and
// finally "false". The samples that it writes are lines of JSON with a Result and a Peak.
type Process[Out any] struct {
	Peak uint64 // peak resident memory of the process in bytes, as of the last sample

	name    string
	command *exec.Cmd
	stdin   io.Closer
	in      *json.Encoder
	out     *json.Decoder
	ended   bool
}

type outcome[Out any] struct {
	Result Out
	Peak   uint64
}

// StartProcess starts a process with its input; name appears in errors.
func StartProcess[Out any](name string, c *exec.Cmd, in any) (*Process[Out], error) {
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Process[Out]{name: name, command: c, stdin: stdin, in: json.NewEncoder(stdin), out: json.NewDecoder(stdout)}
	if err := s.in.Encode(in); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Sample takes a sample.
func (s *Process[Out]) Sample() (Out, error) {
	var o outcome[Out]
	err := s.in.Encode(true)
	if err == nil {
		err = s.out.Decode(&o)
	}
	if err != nil {
		return o.Result, cmp.Or(s.Close(), fmt.Errorf("%s: %w", s.name, err))
	}
	s.Peak = o.Peak
	return o.Result, nil
}

// Close lets the process end, and waits for it. Further calls do nothing.
func (s *Process[Out]) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	s.in.Encode(false)    // fails if it has ended
	defer s.stdin.Close() // closing it earlier would end the process
	if err := s.command.Wait(); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// runJob runs the job for which this process was started, if any.
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
