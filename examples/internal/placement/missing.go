package placement

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/estimate"
)

// MissingOps are the ops of a run that its devices lack.
type MissingOps struct {
	Devices []DeviceLacks
	isAuto  bool // the program chose the devices
}

// DeviceLacks are the ops that a device lacks.
type DeviceLacks struct {
	Device string   `json:"device"`
	Ops    []string `json:"ops"`
}

// Missing returns the ops that the devices lack. The needs were estimated for these devices, see
// [Choice.Devices].
func (c *Choice) Missing(needs *estimate.Memory) MissingOps {
	m := MissingOps{Devices: []DeviceLacks{}, isAuto: c.isAuto}
	for _, d := range c.Devices() {
		if ops := needs.Lacks(d); len(ops) > 0 {
			m.Devices = append(m.Devices, DeviceLacks{d.Name(), ops})
		}
	}
	return m
}

// of returns the ops that a device lacks.
func (m MissingOps) of(d *ggml.Device) []string {
	i := slices.IndexFunc(m.Devices, func(l DeviceLacks) bool { return l.Device == d.Name() })
	if i < 0 {
		return nil
	}
	return m.Devices[i].Ops
}

// lines returns the table and the remedy; nil if no op is missing.
func (m MissingOps) lines() (lines []string) {
	if len(m.Devices) == 0 {
		return nil
	}
	lines = append(lines, fmt.Sprintf("%-12s %s", "missing on", "ops of the run"))
	for _, l := range m.Devices {
		lines = append(lines, fmt.Sprintf("%-12s %s", l.Device, strings.Join(l.Ops, ", ")))
	}
	if m.isAuto {
		return append(lines, "these devices are not used; a newer ggml may have these ops, and --device NAME uses a device without them")
	}
	return append(lines, "the CPU computes these ops, and copies data from and to the device each time; a newer ggml may have them (for a server, on its machine), and --device CPU computes everything without copies")
}

// String returns the table, or "" if no op is missing.
func (m MissingOps) String() string {
	var text strings.Builder
	for _, line := range m.lines() {
		fmt.Fprintln(&text, line)
	}
	return text.String()
}
