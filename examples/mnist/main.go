// Mnist trains a small network, of dense layers or of convolutions, to recognise handwritten digits: from the
// MNIST files, or drawn by the program.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/examples/internal/cli"
)

type program struct {
	Data      string `name:"data" placeholder:"DIR" help:"Folder with the MNIST files train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte; without it digits are drawn." group:"Data"`
	DrawTrain int    `name:"train" range:"[0,1000000]" default:"6000" help:"Digits to draw for training." group:"Data"`
	DrawTest  int    `name:"test" range:"[0,1000000]" default:"2000" help:"Digits to draw for the test." group:"Data"`

	Network string `name:"network" enum:"${networks}" default:"mlp" help:"Kind of network: ${networks}." group:"Network"`
	Load    string `name:"load" placeholder:"FILE" help:"GGUF file with the network to continue with." group:"Network"`
	Save    string `name:"save" placeholder:"FILE" help:"GGUF file to write." group:"Network"`

	Epochs  int     `name:"epochs" range:"[0,)" default:"6" help:"Times to go through the data; 0 only tests." group:"Training"`
	Batch   int     `name:"batch" range:"[1,65536]" default:"50" help:"Digits a step." group:"Training"`
	Rate    float32 `name:"rate" range:"(0,1]" default:"0.003" help:"Learning rate of the first epoch; it falls to a tenth." group:"Training"`
	Seed    uint64  `name:"seed" range:"[0,)" default:"1" help:"Equal seeds give equal digits and networks." group:"Training"`
	Threads int     `name:"threads" range:"[0,512]" short:"t" default:"0" help:"Threads; 0 for one per core within the quota of a container." group:"Training"`
}

func main() {
	var p program
	cli.Parse("mnist", &p, kong.Description(
		"Train a network to read handwritten digits.\n\n"+
			"Example: mnist --epochs 5 --save digits.gguf"),
		kong.ShortUsageOnError(), networkNames())
	cli.Main("mnist", func(ctx context.Context, out io.Writer) error {
		_, err := p.run(ctx, out)
		return err
	})
}

// run returns the fraction of test digits that the network recognises.
func (p *program) run(ctx context.Context, w io.Writer) (accuracy float64, err error) {
	w = cli.Aside(w, p.Save)
	if err := cli.CheckOutputs(p.inputs(), []cli.File{{Flag: "--save", Path: p.Save}}); err != nil {
		return 0, err
	}
	train, test, err := p.sets()
	if err != nil {
		return 0, err
	}
	for _, s := range []*set{train, test} {
		if dropped := s.cut(p.Batch); dropped > 0 {
			fmt.Fprintf(w, "left out %s, which do not fill a batch of %d\n", cli.Count(dropped, "digit"), p.Batch)
		}
		if s.len() == 0 {
			return 0, fmt.Errorf("there are fewer digits than --batch %d", p.Batch)
		}
	}
	backend, err := ggml.NewCPUBackend(p.Threads)
	if err != nil {
		return 0, err
	}
	defer backend.Close()
	n, err := p.network(backend)
	if err != nil {
		return 0, err
	}
	defer n.close()
	if p.Epochs > 0 {
		if err := p.train(ctx, w, n, train); err != nil {
			return 0, err
		}
	}
	if accuracy, err = n.test(ctx, test, p.Batch); err != nil {
		return 0, err
	}
	fmt.Fprintf(w, "right on %.2f %% of %s that it was not trained on\n", 100*accuracy, cli.Count(test.len(), "digit"))
	if p.Save == "" {
		return accuracy, nil
	}
	if err := n.save(p.Save); err != nil {
		return 0, fmt.Errorf("--save: %w", err)
	}
	fmt.Fprintf(w, "wrote %s\n", p.Save)
	return accuracy, nil
}

// inputs returns the data files. The network file is not among them: the output may replace it.
func (p *program) inputs() (files []cli.File) {
	if p.Data == "" {
		return nil
	}
	for _, prefix := range []string{trainPrefix, testPrefix} {
		images, labels := setPaths(p.Data, prefix)
		files = append(files, cli.File{Flag: "--data", Path: images}, cli.File{Flag: "--data", Path: labels})
	}
	return files
}

func (p *program) sets() (train, test *set, err error) {
	if p.Data == "" {
		return drawSet(p.DrawTrain, p.Seed), drawSet(p.DrawTest, p.Seed+1<<32), nil
	}
	if train, err = readSet(p.Data, trainPrefix); err != nil {
		return nil, nil, fmt.Errorf("--data: %w", err)
	}
	if test, err = readSet(p.Data, testPrefix); err != nil {
		return nil, nil, fmt.Errorf("--data: %w", err)
	}
	return train, test, nil
}

func (p *program) network(b *ggml.Backend) (*network, error) {
	if p.Load == "" {
		return newNetwork(b, p.Network, p.Seed)
	}
	n, err := loadNetwork(b, p.Load)
	if err != nil {
		return nil, fmt.Errorf("--load: %w", err)
	}
	return n, nil
}

func (p *program) train(ctx context.Context, w io.Writer, n *network, s *set) error {
	e, err := n.evaluation(s, p.Batch)
	if err != nil {
		return err
	}
	defer e.close()
	return ggml.Fit(ctx, e.data, ggml.FitOptions{
		Inputs: e.images, Outputs: e.logits,
		Loss:   ggml.LossCrossEntropy,
		Epochs: p.Epochs,
		Params: func(epoch int, _ int64) ggml.OptimizerParams {
			params := ggml.DefaultOptimizerParams()
			done := float64(epoch-1) / float64(p.Epochs)
			params.AdamW.LearningRate = p.Rate * float32(math.Pow(0.1, done))
			return params
		},
		Progress: func(f ggml.FitProgress) {
			if f.Batch < f.Batches {
				return
			}
			loss, _ := f.Result.Loss()
			accuracy, _ := f.Result.Accuracy()
			fmt.Fprintf(w, "epoch %d of %d: loss %.4f, right on %.2f %% in training, %v\n",
				f.Epoch, f.Epochs, loss, 100*accuracy, f.Elapsed.Round(time.Millisecond))
		},
	}, n.backend)
}
