package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/adapters"
	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/examples/internal/inference"
	"github.com/goggml/ggml/examples/internal/placement"
	"github.com/goggml/ggml/examples/internal/runs"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// compareCommand compares two models on the same held-out data, sample by sample.
type compareCommand struct {
	runs.Pair
	Config     cli.ConfigFile `name:"config" basic:"" placeholder:"FILE" help:"YAML file with flags by their names, such as a run's config.yaml; the command line overrules it." group:"Data"`
	Confidence float64        `name:"confidence" basic:"" range:"(0,1)" default:"0.95" help:"Probability that the confidence interval of the difference contains the true difference." group:"Report"`
	heldOutFlags
	Model string `name:"model" basic:"" aliases:"model-base,model-name-or-path" short:"m" placeholder:"FILE" help:"GGUF model of the adapters; by default each run's." group:"Model"`
	inference.Overrides

	Ctx int `name:"ctx" basic:"" range:"[0,2147483647]" short:"c" default:"0" help:"Most tokens of a sample; by default the run's, or 2048, or the model's training context if that is less." group:"Computing"`
	placement.DeviceFlags
	Threads int  `name:"threads" basic:"" range:"[0,512]" short:"t" default:"0" help:"CPU threads; 0 for one per core within the quota of a container." group:"Computing"`
	JSON    bool `name:"json" basic:"" help:"Write a line of JSON for each data set instead of a table." group:"Report"`
}

// A side is a model of the comparison with its measurements: per data set, the rows, their result, and a hash of the
// tokens.
type side struct {
	name    string
	model   string
	lora    []string
	rows    [][]train.RowEvaluation
	results []result
	hashes  [][sha256.Size]byte
}

// Run measures both models and reports the difference.
func (c *compareCommand) Run(ctx context.Context, out io.Writer) error {
	sides, err := c.sides()
	if err != nil {
		return err
	}
	if err := c.checkData(); err != nil {
		return err
	}
	defer c.close()
	for i := range sides {
		if err := c.measureSide(ctx, &sides[i]); err != nil {
			return err
		}
	}
	var list []compared
	for i, name := range c.names {
		if sides[0].hashes[i] != sides[1].hashes[i] {
			return fmt.Errorf("the models of %s and %s split %s into different tokens, so their losses per token cannot be compared", c.A, c.B, name)
		}
		d, err := train.Compare(sides[0].rows[i], sides[1].rows[i], c.Confidence)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, compared{
			name, measured{c.A, sides[0].results[i].measurement}, measured{c.B, sides[1].results[i].measurement}, c.copies[i], d.Mean, d.Low, d.High, d.Confidence, d.Rows, d.Decided(),
		})
	}
	return c.print(out, list)
}

// sides returns the two models to compare.
func (c *compareCommand) sides() ([2]side, error) {
	var sides [2]side
	for i, name := range []string{c.A, c.B} {
		s := side{name: name, model: c.Model}
		switch at := slices.IndexFunc(c.Opened(), func(r *runs.Run) bool { return r.Path == filepath.Clean(name) || r.Path == name }); {
		case at >= 0:
			s.lora = []string{name}
			if s.model == "" {
				var err error
				if s.model, err = c.Opened()[at].Model(); err != nil {
					return sides, err
				}
			}
		case isModel(name):
			s.model = name
		default:
			arg, err := adapters.Parse("", name)
			if err == nil {
				_, err = os.Stat(arg.Path)
			}
			if err != nil {
				return sides, err
			}
			s.lora = []string{name}
		}
		sides[i] = s
	}
	for i := range sides {
		if sides[i].model = cmp.Or(sides[i].model, sides[1-i].model); sides[i].model == "" {
			return sides, errors.New("missing flags: --model=FILE, the model of the adapters")
		}
	}
	return sides, nil
}

// isModel reports whether a file is a GGUF model rather than an adapter.
func isModel(path string) bool {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return false
	}
	defer g.Close()
	_, ofModel := g.Value("general.architecture")
	kind, _ := g.Value("general.type")
	return ofModel && kind != "adapter"
}

// checkData requires data. If the data is what runs held out, both runs must have held out the same.
func (c *compareCommand) checkData() error {
	opened := c.Opened()
	if at := slices.IndexFunc(c.Data, data.IsPipe); at >= 0 {
		return fmt.Errorf("--data %s is a pipe, which can be read only once, but both models need the data; write it into a file", c.Data[at])
	}
	switch {
	case len(c.Data) > 0:
		return nil
	case len(opened) == 0:
		return errors.New("missing flags: --data=FILE (or the folder of a run)")
	}
	for _, flag := range []string{"valid-data", "valid-split", "train-data", "seed"} {
		if !slices.Equal(opened[0].Paths(flag), opened[len(opened)-1].Paths(flag)) {
			return fmt.Errorf("the runs in %s and %s held out different data (--%s); name data with --data", opened[0].Path, opened[1].Path, flag)
		}
		if flag == "valid-data" && len(opened[0].Paths(flag)) > 0 {
			return nil
		}
	}
	return nil
}

func (c *compareCommand) measureSide(ctx context.Context, s *side) error {
	flags := inference.ModelFlags{
		Model: s.model, LoRA: s.lora, Overrides: c.Overrides, Ctx: c.Ctx, DeviceFlags: c.DeviceFlags, Threads: c.Threads,
	}
	return c.measure(ctx, &flags, c.Opened(), func(m *inference.Model, e *train.Evaluator, sets []*data.Dataset) error {
		sets, err := c.distinct(sets)
		if err != nil {
			return err
		}
		for i, d := range sets {
			hash, err := hashOf(d)
			if err != nil {
				return err
			}
			rows, rewards, err := c.evaluateRows(ctx, m.Model, e, m.Options.Adapters, d)
			if err != nil {
				return err
			}
			r, err := c.newResult(c.names[i], rows, rewards)
			if err != nil {
				return err
			}
			s.rows, s.results, s.hashes = append(s.rows, rows), append(s.results, r), append(s.hashes, hash)
		}
		return nil
	})
}

// hashOf returns the hash of a data set's tokens.
func hashOf(d *data.Dataset) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return sum, err
		}
		for _, s := range row {
			if err := binary.Write(h, binary.LittleEndian, append(s.Tokens, -1)); err != nil {
				return sum, err
			}
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}

// A measured is a side in the report.
type measured struct {
	Name string `json:"name"`
	measurement
}

// A compared is a line of the report.
type compared struct {
	Data       string   `json:"data"`
	A          measured `json:"a"`
	B          measured `json:"b"`
	Copies     int      `json:"copies"`     // copies of samples, which count once
	Difference float64  `json:"difference"` // loss of A minus loss of B
	Low        float64  `json:"low"`
	High       float64  `json:"high"`
	Confidence float64  `json:"confidence"`
	Samples    int      `json:"samples"`
	Decided    bool     `json:"decided"`
}

// verdict returns the result in a sentence.
func (c *compared) verdict() string {
	conclusion := "the difference may be chance"
	switch {
	case c.Low > 0:
		conclusion = "B is better"
	case c.High < 0:
		conclusion = "A is better"
	}
	difference, low, high, side := c.Difference, c.Low, c.High, "below"
	if difference < 0 {
		difference, low, high, side = -difference, -high, -low, "above"
	}
	samples := cli.Count(c.Samples, "sample")
	if c.Copies > 0 {
		samples += fmt.Sprintf(", %s not counted", cli.Count(c.Copies, "duplicate"))
	}
	name := filepath.Base(c.Data)
	if c.A.judged != nil {
		name += ", " + c.A.By
	}
	return fmt.Sprintf("%s: B's loss is %.4f %s A's; %.4g %% confidence interval %.4f to %.4f (%s): %s",
		name, difference, side, 100*c.Confidence, low, high, samples, conclusion)
}

func (c *compareCommand) print(out io.Writer, list []compared) error {
	if c.JSON {
		return cli.WriteLines(out, list)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "data\tmodel\tloss\tperplexity\taccuracy\t%s\t\n", c.judge.counts())
	for _, r := range list {
		for i, m := range []measured{r.A, r.B} {
			fmt.Fprintf(table, "%s\t%s: %s\t%.4f\t%s\t\n", filepath.Base(r.Data), "AB"[i:i+1], m.Name, m.Loss, m.cells())
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range list {
		if _, err := fmt.Fprintln(out, r.verdict()); err != nil {
			return err
		}
	}
	return nil
}
