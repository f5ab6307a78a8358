package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// prompt begins the lines of commands.
const prompt = "$ "

// A header is the first line of an asciicast.
type header struct {
	Version int `json:"version"`
	Width   int `json:"width"`
	Height  int `json:"height"`
}

// An event is a line that appears some seconds after the beginning.
type event struct {
	At   float64
	Line string
}

func (e event) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{e.At, "o", e.Line + "\r\n"})
}

func (e *event) UnmarshalJSON(data []byte) error {
	var kind string
	if err := json.Unmarshal(data, &[]any{&e.At, &kind, &e.Line}); err != nil {
		return err
	}
	if kind != "o" {
		return fmt.Errorf("an event of kind %q; only output is drawn", kind)
	}
	e.Line = strings.TrimRight(e.Line, "\r\n")
	return nil
}

// withFile calls a function with the content of a file.
func withFile(path string, do func(io.Reader, io.Writer) error, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return do(file, out)
}

// record runs commands, and writes what they print to their standard output.
func record(commands io.Reader, out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(header{Version: 2, Width: 110, Height: 30}); err != nil {
		return err
	}
	began := time.Now()
	show := func(line string) error {
		return encoder.Encode(event{At: time.Since(began).Round(10 * time.Millisecond).Seconds(), Line: line})
	}
	for lines := bufio.NewScanner(commands); lines.Scan(); {
		command, shown, other := strings.Cut(lines.Text(), " ## ")
		if !other {
			shown = command
		}
		if isComment(command) {
			if err := show(command); err != nil {
				return err
			}
			continue
		}
		if err := show(prompt + shown); err != nil {
			return err
		}
		if err := run(command, show); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}

func run(command string, show func(string) error) error {
	c := exec.Command("sh", "-c", command)
	c.Stderr = os.Stderr
	output, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if err := show(lines.Text()); err != nil {
			return err
		}
	}
	return c.Wait()
}
