package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml"
)

// A kind is a network architecture: its parameters, and its function from images [784, k] to logits [10, k].
type kind struct {
	params []param
	build  func(c *ggml.Context, p map[string]*ggml.Tensor, images *ggml.Tensor) *ggml.Tensor
}

// A param is a parameter; fan is its fan-in, the number of products in a sum; 0 for a bias.
type param struct {
	name  string
	shape []int64
	fan   int64
}

var kinds = map[string]kind{
	"mlp": {
		params: []param{
			{"fc1.weight", []int64{pixels, 128}, pixels}, {"fc1.bias", []int64{128}, 0},
			{"fc2.weight", []int64{128, digits}, 128}, {"fc2.bias", []int64{digits}, 0},
		},
		build: func(c *ggml.Context, p map[string]*ggml.Tensor, images *ggml.Tensor) *ggml.Tensor {
			hidden := c.Relu(c.Add(c.MulMat(p["fc1.weight"], images), p["fc1.bias"]))
			return c.Add(c.MulMat(p["fc2.weight"], hidden), p["fc2.bias"])
		},
	},
	"cnn": {
		params: []param{
			{"conv1.weight", []int64{3, 3, 1, 6}, 9}, {"conv1.bias", []int64{1, 1, 6}, 0},
			{"conv2.weight", []int64{3, 3, 6, 12}, 54}, {"conv2.bias", []int64{1, 1, 12}, 0},
			{"fc.weight", []int64{7 * 7 * 12, digits}, 7 * 7 * 12}, {"fc.bias", []int64{digits}, 0},
		},
		build: func(c *ggml.Context, p map[string]*ggml.Tensor, images *ggml.Tensor) *ggml.Tensor {
			batch := images.Dim(1)
			x := c.Reshape(images, side, side, 1, batch)
			x = convolve(c, p, "conv1", x) // [14, 14, 6, k]
			x = convolve(c, p, "conv2", x) // [7, 7, 12, k]
			x = c.Reshape(x, 7*7*12, batch)
			return c.Add(c.MulMat(p["fc.weight"], x), p["fc.bias"])
		},
	},
}

// convolve keeps width and height by padding, and halves them by pooling.
func convolve(c *ggml.Context, p map[string]*ggml.Tensor, name string, x *ggml.Tensor) *ggml.Tensor {
	padded := ggml.ConvDim{Padding: 1}
	x = c.Conv2D(p[name+".weight"], x, [2]ggml.ConvDim{padded, padded})
	x = c.Relu(c.Add(x, p[name+".bias"]))
	half := ggml.PoolDim{Size: 2}
	return c.Pool2D(x, ggml.PoolMax, [2]ggml.PoolDim{half, half})
}

// A network is a kind with the values of its parameters.
type network struct {
	kind    string
	backend *ggml.Backend
	c       *ggml.Context
	buffers *ggml.Buffers
	params  map[string]*ggml.Tensor
}

func (n *network) close() {
	n.buffers.Close()
	n.c.Close()
}

// newNetwork draws the parameters from normal distributions whose variance keeps the scale of the activations.
func newNetwork(b *ggml.Backend, name string, seed uint64) (*network, error) {
	n := &network{kind: name, backend: b, c: ggml.NewContext(), params: map[string]*ggml.Tensor{}}
	for _, p := range kinds[name].params {
		n.params[p.name] = n.c.NewTensor(ggml.F32, p.shape...).SetName(p.name)
	}
	var err error
	if n.buffers, err = n.c.Allocate(b.BufferType()); err != nil {
		n.close()
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 784))
	for _, p := range kinds[name].params {
		values := make([]float32, n.params[p.name].NumElements())
		for i := range values {
			if p.fan > 0 {
				values[i] = float32(r.NormFloat64() * math.Sqrt(2/float64(p.fan)))
			}
		}
		if err := ggml.Write(n.params[p.name], values); err != nil {
			n.close()
			return nil, err
		}
	}
	n.mark()
	return n, nil
}

func (n *network) mark() {
	for _, t := range n.params {
		t.SetParam()
	}
}

const architecture = "mnist"

// save writes the parameters to a GGUF file.
func (n *network) save(path string) error {
	g, err := ggml.NewGGUF()
	if err != nil {
		return err
	}
	defer g.Close()
	for key, value := range map[string]string{"general.architecture": architecture, "mnist.kind": n.kind} {
		if err := g.Set(key, value); err != nil {
			return err
		}
	}
	for _, p := range kinds[n.kind].params {
		if err := g.AddTensor(n.params[p.name]); err != nil {
			return err
		}
	}
	return g.WriteFile(path)
}

// loadNetwork reads a file of save.
func loadNetwork(b *ggml.Backend, path string) (*network, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	name, err := ggml.GGUFValue[string](g, "mnist.kind")
	if err != nil {
		return nil, err
	}
	k, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("%s: unknown kind of network %q; expected %q", path, name, slices.Sorted(maps.Keys(kinds)))
	}
	n := &network{kind: name, backend: b, c: ggml.NewContext(), params: map[string]*ggml.Tensor{}}
	for _, p := range k.params {
		if t, ok := g.Tensor(p.name); !ok || t.Type != ggml.F32 || !slices.Equal(t.Shape, p.shape) {
			n.close()
			return nil, fmt.Errorf("%s has no tensor %s of type f32 and shape %v", path, p.name, p.shape)
		}
	}
	if n.buffers, err = g.Load(n.c, b.Device(), ggml.LoadOptions{NoMmap: true}); err != nil {
		n.close()
		return nil, err
	}
	for _, p := range k.params {
		n.params[p.name], _ = n.c.Tensor(p.name) // exists: checked above
	}
	n.mark()
	return n, nil
}
