package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/layout"
)

// check returns an error with remedies if the run does not fit.
func (r *runPlan) check() error {
	if r.Fits {
		return nil
	}
	for _, d := range r.Devices {
		if d.All <= d.Available {
			continue
		}
		remedy := "use a smaller model, or fewer layers on the device"
		switch {
		case r.LargestBatch > 0 && r.LargestBatch < r.Batch:
			remedy = fmt.Sprintf("--batch %d fits; a larger --grad-acc keeps the number of samples per step", r.LargestBatch)
		case r.LargestBatch >= r.Batch:
			remedy = "--use-checkpointing fits"
		case r.LongestSample > 0 && r.LongestSample < r.Ctx:
			remedy = fmt.Sprintf("--ctx %d fits", r.LongestSample)
		}
		return fmt.Errorf("the run does not fit: it takes %s of %s, which has %s available; %s", layout.Bytes(d.All), d.Name, layout.Bytes(d.Available), remedy)
	}
	return nil
}

// checkpointing says how much steps recompute.
func (r *runPlan) checkpointing() string {
	switch {
	case !r.Checkpointing:
		return "without gradient checkpointing"
	case r.Recomputed == 1:
		return "with gradient checkpointing"
	}
	return fmt.Sprintf("with gradient checkpointing of %.0f %% of the forward pass", 100*r.Recomputed)
}

func (r *runPlan) write(w io.Writer) error {
	var b strings.Builder
	row := func(name string, of func(plannedDevice) string) {
		fmt.Fprintf(&b, "%-24s", name)
		for _, d := range r.Devices {
			fmt.Fprintf(&b, " %12s", of(d))
		}
		b.WriteByte('\n')
	}
	row("memory", func(d plannedDevice) string { return d.Name })
	for _, part := range []struct {
		name string
		of   func(plannedDevice) int64
	}{
		{"weights", func(d plannedDevice) int64 { return d.Weights }},
		{"adapter", func(d plannedDevice) int64 { return d.Adapter }},
		{"gradients and moments", func(d plannedDevice) int64 { return d.Optimizer }},
		{"results of a step", func(d plannedDevice) int64 { return d.Step }},
		{"evaluations", func(d plannedDevice) int64 { return d.Evaluations }},
		{"teacher", func(d plannedDevice) int64 { return d.Teacher }},
		{"program", func(d plannedDevice) int64 { return d.Program }},
		{"all", func(d plannedDevice) int64 { return d.All }},
		{"available", func(d plannedDevice) int64 { return d.Available }},
	} {
		if part.name == "teacher" && !slices.ContainsFunc(r.Devices, func(d plannedDevice) bool { return d.Teacher > 0 }) {
			continue // it is closed before training
		}
		row(part.name, func(d plannedDevice) string { return layout.Bytes(part.of(d)) })
	}
	b.WriteByte('\n')
	if r.missing != "" {
		b.WriteString(r.missing + "\n")
	}
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-24s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("fits", "%s, %s", map[bool]string{true: "yes", false: "no"}[r.Fits], r.checkpointing())
	line("largest that fits", "%s", r.largest())
	if r.isPacked {
		line("data", "%s of %s in %s", cli.Count(r.Samples, "sample"), cli.Count(r.Tokens, "token"), cli.Count(r.Rows, "row"))
	} else {
		line("data", "%s of %s", cli.Count(r.Samples, "sample"), cli.Count(r.Tokens, "token"))
	}
	done := ""
	if r.Done > 0 {
		done = fmt.Sprintf(", %d of them done: the run continues", r.Done)
	}
	line("run", "%s of %s%s", cli.Count(r.Steps, "step"), cli.Count(r.RowsOfStep, "row"), done)
	line("adapter", "%s, %s", cli.Count(int(r.Parameters), "parameter"), layout.Bytes(r.AdapterBytes))
	line("files of the run", "%s, without the token cache", layout.Bytes(r.RunFilesBytes))
	line("time", "%s", r.time())
	_, err := io.WriteString(w, b.String())
	return err
}

// largest returns the flags of the largest batch and sample length that fit.
func (r *runPlan) largest() string {
	var list []string
	if r.LargestBatch > 0 {
		list = append(list, fmt.Sprintf("--batch %d%s", r.LargestBatch, map[bool]string{true: " or more"}[r.more]))
	}
	if r.LongestSample > 0 {
		list = append(list, fmt.Sprintf("--batch %d --ctx %d", r.Batch, r.LongestSample))
	}
	if len(list) == 0 {
		return fmt.Sprintf("no --batch fits at this sample length, and no --ctx fits with --batch %d", r.Batch)
	}
	return strings.Join(list, ", or with ")
}

// time describes the time of a step and of all steps, and how it was measured.
func (r *runPlan) time() string {
	if r.noTime != "" {
		return r.noTime
	}
	var of []string
	if t := r.Timed; t.Layers < t.OfLayers {
		of = append(of, fmt.Sprintf("%d of %d layers", t.Layers, t.OfLayers))
	}
	if t := r.Timed; t.Rows < t.OfRows {
		of = append(of, fmt.Sprintf("%d of %d rows of a batch", t.Rows, t.OfRows))
	}
	steps := "steps"
	if r.Done > 0 {
		steps = "remaining steps"
	}
	text := fmt.Sprintf("%s per step, %s for all %s", seconds(r.StepSeconds), seconds(r.RunSeconds), steps)
	if len(of) > 0 {
		text = fmt.Sprintf("about %s, extrapolated from %s", text, strings.Join(of, " and "))
	}
	text += ", without evaluations"
	if r.multiplier != "" {
		text += "; GEMM by " + r.multiplier
	}
	return text
}

// seconds formats a time with about three digits.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.3g s", s)
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
