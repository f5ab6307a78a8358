package placement

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/parallel"
)

// part returns the share of process i of n in a list: consecutive items, with sizes that differ by at most one.
// If there are fewer items than processes, several processes share one.
func part[T any](list []T, i, n int) []T {
	if len(list) == 0 {
		return nil
	}
	from := i * len(list) / n
	return list[from:max(from+1, (i+1)*len(list)/n)]
}

// own returns this process's part of a list that several processes share; all of it if the process is alone.
func own[T any](list []T, among []parallel.Process, group *parallel.World) []T {
	for i, p := range among {
		if p.Rank == group.Rank() {
			return part(list, i, len(among))
		}
	}
	return list
}

// share keeps this process's share of the devices. Remote devices are already its own, by their servers. The
// processes of a machine share its devices other than the CPU.
func (c *Choice) share(remote []*ggml.Device, group *parallel.World) {
	var local []*ggml.Device
	for _, d := range c.devices {
		if d.Type() != ggml.CPU && !slices.Contains(remote, d) {
			local = append(local, d)
		}
	}
	mine := own(local, group.Local(), group)
	c.devices = slices.DeleteFunc(c.devices, func(d *ggml.Device) bool { return slices.Contains(local, d) && !slices.Contains(mine, d) })
	c.local = names(local)
}

// DescribeShares lists each process's devices if several processes share servers or devices.
func (c *Choice) DescribeShares(w io.Writer, group *parallel.World) {
	describe := func(what string, list []string, among []parallel.Process) {
		if len(list) == 0 || len(among) < 2 {
			return
		}
		var parts []string
		for i, p := range among {
			parts = append(parts, fmt.Sprintf("rank %d has %s", p.Rank, strings.Join(part(list, i, len(among)), ", ")))
		}
		fmt.Fprintf(w, "%s: %s\n", what, strings.Join(parts, "; "))
	}
	describe("servers", c.flags.RPC, group.Processes())
	describe("devices of this machine", c.local, group.Local())
}
