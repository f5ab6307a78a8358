package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
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

// measureTorch measures PyTorch and PEFT, if they are installed.
func measureTorch(ctx context.Context, o *options, emit func(row ...string)) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return errors.New("there is no python3")
	}
	// The libraries in the archive are only for programs in the archive.
	c := child(ctx, "env", "-u", "LD_LIBRARY_PATH", python, "-c", torchProgram, fmt.Sprint(o.product))
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		c.Wait()
		return fmt.Errorf("PyTorch: %s", lastLine(said.String()))
	}
	var rate float64
	var version string
	fmt.Sscan(lines.Text(), &rate, &version)
	emit("", "product of "+fmt.Sprint(o.product)+"³ in BF16, PyTorch "+version, "", fmt.Sprintf("%.3g TFLOP/s", rate/1e12), "", "")
	for _, size := range o.sizes {
		for _, length := range o.contexts {
			s := shapes[size]
			ask := torchStep{s.Vocab, s.Embd, s.FF, s.Layers, s.Heads, s.KVHeads, s.HeadSize, length, max(1, o.tokens/length), rank, length*max(1, o.tokens/length) > 8192, 0, 0, ""}
			text, err := json.Marshal(ask)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(in, string(text)); err != nil || !lines.Scan() {
				in.Close()
				c.Wait()
				return fmt.Errorf("PEFT: %s", lastLine(said.String()))
			}
			var got torchStep
			if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
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
	in.Close()
	return c.Wait()
}
