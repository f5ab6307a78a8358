package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/estimate"
)

// MissingOps are the ops of a run that devices lack.
type MissingOps struct {
	Devices []DeviceLacks
	isAuto  bool // the program chose the devices
}

// DeviceLacks are the ops that a device lacks.
type DeviceLacks struct {
	Device string   `json:"device"`
	Ops    []string `json:"ops"`
}

// Missing are the ops of an estimate that the devices lack. It was made for them, see [Choice.Devices].
func (c *Choice) Missing(needs *estimate.Memory) MissingOps {
	m := MissingOps{Devices: []DeviceLacks{}, isAuto: c.isAuto}
	for _, d := range c.Devices() {
		if ops := needs.Lacks(d); len(ops) > 0 {
			m.Devices = append(m.Devices, DeviceLacks{d.Name(), ops})
		}
	}
	return m
}

// of are the ops that a device lacks.
func (m MissingOps) of(d *ggml.Device) []string {
	i := slices.IndexFunc(m.Devices, func(l DeviceLacks) bool { return l.Device == d.Name() })
	if i < 0 {
		return nil
	}
	return m.Devices[i].Ops
}

// lines are the table, with what to do; none where nothing is missing.
func (m MissingOps) lines() (lines []string) {
	if len(m.Devices) == 0 {
		return nil
	}
	lines = append(lines, fmt.Sprintf("%-12s %s", "missing on", "ops of the run"))
	for _, l := range m.Devices {
		lines = append(lines, fmt.Sprintf("%-12s %s", l.Device, strings.Join(l.Ops, ", ")))
	}
	if m.isAuto {
		return append(lines, "such a device is left alone; a newer ggml may have these ops there, and --device NAME takes it without them")
	}
	return append(lines, "the CPU computes these ops, with copies from the device and to it each time; a newer ggml may have them there (of a server, on its machine), and --device CPU computes all without copies")
}

// String is the table, "" where nothing is missing.
func (m MissingOps) String() string {
	var text strings.Builder
	for _, line := range m.lines() {
		fmt.Fprintln(&text, line)
	}
	return text.String()
}
