package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goggml/ggml"
)

// stock runs a program of llama.cpp from the archive, through the loader with which this program was started.
func (o *options) stock(ctx context.Context, name string, args ...string) ([]byte, error) {
	program := filepath.Join(o.programs, name)
	if _, err := os.Stat(program); o.programs == "" || err != nil {
		return nil, fmt.Errorf("there is no %s here: -programs names its folder", name)
	}
	c, err := self(ctx)
	if err != nil {
		return nil, err
	}
	c.Args = append(c.Args[:len(c.Args)-1], program)
	if len(c.Args) == 1 {
		c.Path = program
	}
	c.Args = append(c.Args, args...)
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", name, err, lastLine(string(exit.Stderr)))
	}
	return out, err
}

// llamaBench returns tokens/s of llama-bench.
func (o *options) llamaBench(ctx context.Context, d *ggml.Device, path string) (prefill, decode float64, err error) {
	name := d.Name()
	if d.Type() == ggml.CPU {
		name = "none" // llama-bench's name for the CPU
	}
	out, err := o.stock(ctx, "llama-bench", "-m", path, "-p", fmt.Sprint(promptTokens), "-n", fmt.Sprint(newTokens), "-ngl", "999", "-fa", "1", "-dev", name, "-r", "3", "-o", "json")
	if err != nil {
		return 0, 0, err
	}
	var tests []struct {
		NPrompt int     `json:"n_prompt"`
		Rate    float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(out, &tests); err != nil {
		return 0, 0, fmt.Errorf("llama-bench: %w", err)
	}
	for _, t := range tests {
		if t.NPrompt > 0 {
			prefill = t.Rate
		} else {
			decode = t.Rate
		}
	}
	return prefill, decode, nil
}

// trainingOps are the ops of training graphs, quick ones first.
var trainingOps = []string{
	"OUT_PROD", "RMS_NORM_BACK", "SILU_BACK", "SOFT_MAX_BACK", "ROPE_BACK", "CROSS_ENTROPY_LOSS", "CROSS_ENTROPY_LOSS_BACK", "OPT_STEP_ADAMW",
	"GET_ROWS", "SET_ROWS", "RMS_NORM", "SOFT_MAX", "ROPE", "SWIGLU", "CONT", "CPY", "ACC", "CONCAT", "REPEAT", "SUM_ROWS", "FLASH_ATTN_EXT", "MUL_MAT",
}

var passed = regexp.MustCompile(`(\d+)/(\d+) tests passed`)

// measureOps runs stock's tests of each op on each GPU.
func measureOps(ctx context.Context, o *options, emit func(row ...string)) error {
	devices, err := gpus()
	if err != nil {
		return err
	}
	for _, d := range devices {
		for _, op := range trainingOps {
			out, err := o.stock(ctx, "test-backend-ops", "test", "-b", d.Name(), "-o", op)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			counts := passed.FindAllStringSubmatch(string(out), -1)
			switch {
			case len(counts) > 0:
				last := counts[len(counts)-1]
				emit(d.Name(), op, last[1]+" of "+last[2])
			case err != nil:
				emit(d.Name(), op, err.Error())
				if strings.HasPrefix(err.Error(), "there is no") {
					return err
				}
			default:
				emit(d.Name(), op, "none")
			}
		}
	}
	return nil
}
