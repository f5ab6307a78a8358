package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

//go:embed torch.py
var torchProgram string

// A torchStep is a request to torch.py, and its answer.
type torchStep struct {
	Vocab, Embd, FF, Layers, Heads, KVHeads, HeadSize, Context, Rows, Rank int
	Checkpointing                                                          bool

	Seconds, Memory float64
	Error           string
}

// A torchProcess is torch.py, which answers each line of its input by a line.
type torchProcess struct {
	*exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
	said  strings.Builder // errors
}

// startTorch starts torch.py, which first measures a product of n³.
func startTorch(ctx context.Context, n int) (*torchProcess, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, errors.New("there is no python3")
	}
	// The libraries in the archive are only for programs in the archive.
	p := &torchProcess{Cmd: child(ctx, "env", "-u", "LD_LIBRARY_PATH", python, "-c", torchProgram, fmt.Sprint(n))}
	p.Stderr = &p.said
	if p.in, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	return p, p.Start()
}

// step measures a training step.
func (p *torchProcess) step(ask torchStep) (got torchStep, err error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return got, err
	}
	if _, err := fmt.Fprintln(p.in, string(text)); err != nil || !p.lines.Scan() {
		return got, p.ended("PEFT")
	}
	return got, json.Unmarshal(p.lines.Bytes(), &got)
}

// ended waits for a process that does not answer, and returns the last line of its errors under a name.
func (p *torchProcess) ended(name string) error {
	p.in.Close()
	p.Wait()
	return fmt.Errorf("%s: %s", name, lastLine(p.said.String()))
}

// measureTorch measures PyTorch and PEFT, if they are installed.
func measureTorch(ctx context.Context, o *options, emit func(row ...string)) error {
	p, err := startTorch(ctx, o.product)
	if err != nil {
		return err
	}
	if !p.lines.Scan() {
		return p.ended("PyTorch")
	}
	var rate float64
	var version string
	fmt.Sscan(p.lines.Text(), &rate, &version)
	emit("", "product of "+fmt.Sprint(o.product)+"³ in BF16, PyTorch "+version, "", fmt.Sprintf("%.3g TFLOP/s", rate/1e12), "", "")
	for _, size := range o.sizes {
		for _, length := range o.contexts {
			s := shapes[size]
			ask := torchStep{s.Vocab, s.Embd, s.FF, s.Layers, s.Heads, s.KVHeads, s.HeadSize, length, max(1, o.tokens/length), rank, length*max(1, o.tokens/length) > 8192, 0, 0, ""}
			got, err := p.step(ask)
			if err != nil {
				return err
			}
			shape := fmt.Sprintf("%d × %d", ask.Context, ask.Rows)
			if got.Error != "" {
				emit(size, "LoRA by PEFT", shape, got.Error, "", "")
				continue
			}
			speed, share := float64(ask.Context*ask.Rows)/got.Seconds, ""
			if o.bf16 > 0 {
				share = fmt.Sprintf("%.1f", 100*speed*s.AdapterFLOPs(length)/o.bf16)
			}
			emit(size, "LoRA by PEFT", shape, fmt.Sprintf("%.0f tokens/s", speed), share, fmt.Sprintf("%.1f", got.Memory/1e9))
		}
	}
	p.in.Close()
	return p.Wait()
}
