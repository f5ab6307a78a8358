package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A part measures something in a separate process, and emits rows for the table of its section.
type part struct {
	name    string
	section string // its title
	limit   time.Duration
	long    bool // omitted in a short run
	measure func(ctx context.Context, o *options, emit func(row ...string)) error
}

// Flags that are also the first cells of a row: the row passes the card's limits to later parts.
const (
	bf16Flag      = "-bf16"
	bandwidthFlag = "-bandwidth"
)

// check runs the parts and writes the page.
func (o *options) check(ctx context.Context, args []string) error {
	folder, err := o.modelFolder()
	if err != nil {
		return err
	}
	if folder != o.models {
		defer os.RemoveAll(folder)
		args = append(args[:len(args):len(args)], "-models", folder)
	}
	p := &page{facts: machineFacts(), began: time.Now(), short: o.short}
	begun := time.Now()
	for _, part := range o.parts() {
		if !o.wants(part) {
			continue
		}
		switch {
		case o.short && part.long:
			p.note(part, "left out of a short run")
			continue
		case time.Since(begun)+part.limit > o.limit:
			p.note(part, fmt.Sprintf("left out: it may take %v, and %v are over of %v", part.limit, time.Since(begun).Round(time.Second), o.limit))
			continue
		}
		fmt.Fprintf(os.Stderr, "gpucheck: %v: %s, at most %v\n", time.Since(begun).Round(time.Second), part.name, part.limit)
		err := o.start(ctx, part, args, func(row []string) {
			if row[0] == bf16Flag || row[0] == bandwidthFlag {
				args = append(args[:len(args):len(args)], row...)
				return
			}
			p.add(part, row)
		})
		if err != nil {
			p.note(part, err.Error())
			fmt.Fprintln(os.Stderr, "gpucheck:", part.name+":", err)
		}
		if err := p.write(o.page); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("stopped; the page has what there was")
		}
	}
	if err := p.write(o.page); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "gpucheck: wrote", o.page)
	return nil
}

// modelFolder returns the folder of the models: if none is named a new one, in memory if they fit.
func (o *options) modelFolder() (string, error) {
	if o.models != "" {
		return o.models, nil
	}
	const room = 48 << 30
	parent := ""
	var s syscall.Statfs_t
	if syscall.Statfs("/dev/shm", &s) == nil && int64(s.Bavail)*int64(s.Bsize) > room {
		parent = "/dev/shm"
	}
	return os.MkdirTemp(parent, "gpucheck-")
}

func (o *options) wants(p part) bool {
	if o.only == "" {
		return true
	}
	for _, name := range strings.Split(o.only, ",") {
		if strings.HasPrefix(p.name, name) {
			return true
		}
	}
	return false
}

// measure is the process of a part: it prints rows as lines of JSON.
func (o *options) measure(ctx context.Context) error {
	for _, p := range o.parts() {
		if p.name == o.part {
			out := json.NewEncoder(os.Stdout)
			return p.measure(ctx, o, func(row ...string) { out.Encode(row) })
		}
	}
	return fmt.Errorf("there is no part %q", o.part)
}

// start runs a part in a separate process.
func (o *options) start(ctx context.Context, p part, args []string, row func([]string)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, fmt.Errorf("stopped after %v", p.limit))
	defer cancel()
	c, err := self(ctx, append(args[:len(args):len(args)], "-part", p.name)...)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var cells []string
		if json.Unmarshal(lines.Bytes(), &cells) == nil && len(cells) > 0 {
			row(cells)
		}
	}
	io.Copy(io.Discard, out)
	err = c.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(said.String()))
	}
	return nil
}

// self returns this program with other arguments, started through the same loader, if any.
func self(ctx context.Context, args ...string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append([]string{program}, args...)
	if line, err := os.ReadFile("/proc/self/cmdline"); err == nil {
		words := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if before := len(words) - len(os.Args); before > 0 { // the loader and its flags
			command = append(words[:before:before], command...)
			command[before] = os.Args[0]
		}
	}
	return child(ctx, command[0], command[1:]...), nil
}

// child returns a command that ends with its context, together with all processes that it has started.
func child(ctx context.Context, program string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(c.SysProcAttr)
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	return c
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
