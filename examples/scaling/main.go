// Scaling estimates how long a step of a run takes on several machines, from its time on one.
package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/parallel"
)

type program struct {
	Step      time.Duration `name:"step" required:"" placeholder:"TIME" help:"Time of a step on one machine, such as 32s." group:"One machine"`
	Samples   int           `name:"samples" range:"[1,1048576]" default:"8" help:"Samples of a step: --batch × --grad-acc of finetune." group:"One machine"`
	Batch     int           `name:"batch" range:"[1,65536]" default:"2" help:"Samples computed at a time." group:"One machine"`
	Gradients float64       `name:"gradients" range:"[0,)" required:"" placeholder:"MB" help:"Gradients of a step, as finetune reports them on several processes: 4 bytes for each parameter of the adapter." group:"One machine"`
	Tokens    int           `name:"tokens" range:"[0,)" default:"0" help:"Tokens of a step, for machines that share the layers of the model; 0 leaves these out." group:"One machine"`
	Width     int           `name:"width" range:"[1,1048576]" default:"4096" help:"Width of the model's hidden states." group:"One machine"`

	Bandwidth float64       `name:"bandwidth" range:"(0,)" default:"1" help:"Bandwidth of the network, in Gbit/s." group:"Network"`
	Latency   time.Duration `name:"latency" range:"[0,)" default:"100us" help:"Latency of the network, one way: half the time that ping reports." group:"Network"`
	Load      float64       `name:"load" range:"[0,1]" default:"0" help:"Share of a machine's processors that a sum takes while it travels, as BenchmarkSum of llm/parallel measures it: 0 if GPUs compute." group:"Network"`
	Machines  []int         `name:"machines" default:"1,2,4,8,16,32,64" help:"Numbers of machines." group:"Network"`
}

func main() {
	var p program
	cli.Parse("scaling", &p, kong.Description(
		"Estimate the time of a training step on several machines from its time on one.\n\n"+
			"Example: scaling --step 32s --gradients 168 --tokens 16384 --bandwidth 10"),
		kong.ShortUsageOnError())
	cli.Main("scaling", func(_ context.Context, out io.Writer) error { return p.print(out) })
}

// print writes a row for each number of machines.
func (p *program) print(w io.Writer) error {
	const megabyte = 1e6
	network := parallel.Network{Bandwidth: p.Bandwidth * 1e9 / 8, Latency: p.Latency, Load: p.Load}
	load := parallel.Workload{
		Step: p.Step, Samples: p.Samples, Batch: p.Batch, Gradients: p.Gradients * megabyte, Hidden: 4 * float64(p.Tokens) * float64(p.Width),
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "machines\tsharing samples\ttimes as fast\t")
	if p.Tokens > 0 {
		fmt.Fprint(table, "sharing layers\t")
	}
	fmt.Fprintln(table)
	for _, n := range p.Machines {
		if n < 1 {
			return fmt.Errorf("--machines %d: give at least 1", n)
		}
		step := load.Data(n, network)
		fmt.Fprintf(table, "%d\t%s\t%.2f\t", n, short(step), p.Step.Seconds()/step.Seconds())
		if p.Tokens > 0 {
			fmt.Fprintf(table, "%s\t", short(load.Layers(n, network)))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// short rounds to the digits that an estimate supports.
func short(d time.Duration) string {
	switch {
	case d >= 100*time.Second:
		return d.Round(time.Second).String()
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
