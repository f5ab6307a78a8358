package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/goggml/ggml"
)

func networkNames() kong.Vars {
	return kong.Vars{"networks": strings.Join(slices.Sorted(maps.Keys(kinds)), ",")}
}

// An evaluation computes a network on batches of a data set.
type evaluation struct {
	c       *ggml.Context
	buffers *ggml.Buffers
	data    *ggml.Dataset
	images  *ggml.Tensor // [784, batch]
	logits  *ggml.Tensor // [10, batch]
}

func (e *evaluation) close() {
	e.data.Close()
	e.buffers.Close()
	e.c.Close()
}

func (n *network) evaluation(s *set, batch int) (*evaluation, error) {
	e := &evaluation{c: ggml.NewContext()}
	if err := e.init(n, s, batch); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *evaluation) init(n *network, s *set, batch int) (err error) {
	e.images = e.c.NewTensor(ggml.F32, pixels, int64(batch)).SetName("images")
	if e.buffers, err = e.c.Allocate(n.backend.BufferType()); err != nil {
		return err
	}
	// The optimizer allocates the results.
	e.logits = kinds[n.kind].build(e.c, n.params, e.images).SetName("logits")
	if e.data, err = ggml.NewDataset(ggml.DatasetOptions{Samples: int64(s.len()), SampleSize: pixels, LabelSize: digits}); err != nil {
		return err
	}
	if err := ggml.Write(e.data.Data(), s.images); err != nil {
		return err
	}
	// The label of a digit is a vector of probabilities.
	labels := make([]float32, digits*s.len())
	for i, l := range s.labels {
		labels[digits*i+int(l)] = 1
	}
	return ggml.Write(e.data.Labels(), labels)
}

// test returns the fraction of digits that the network recognises.
func (n *network) test(ctx context.Context, s *set, batch int) (accuracy float64, err error) {
	e, err := n.evaluation(s, batch)
	if err != nil {
		return 0, err
	}
	defer e.close()
	o, err := ggml.NewOptimizer(ggml.OptimizerOptions{
		Loss: ggml.LossCrossEntropy, Build: ggml.BuildForward, Inputs: e.images, Outputs: e.logits,
	}, n.backend)
	if err != nil {
		return 0, err
	}
	defer o.Close()
	result, err := ggml.NewOptResult()
	if err != nil {
		return 0, err
	}
	defer result.Close()
	if err := o.Epoch(ctx, e.data, ggml.EpochOptions{Eval: result}); err != nil {
		return 0, err
	}
	accuracy, _ = result.Accuracy()
	return accuracy, nil
}
