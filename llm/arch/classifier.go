package arch

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// ErrNoLogits is the error of operations that require logits, for a model that only embeds texts.
var ErrNoLogits = errors.New("no logits")

// HasLogits reports whether the model predicts tokens; others make vectors and scores of texts.
func (a *Architecture) HasLogits() bool { return !a.get().config.spec().encoder }

// CheckLogits returns an error with the consequence if the model makes no logits.
func (a *Architecture) CheckLogits(consequence string) error {
	if a.HasLogits() {
		return nil
	}
	return fmt.Errorf("the architecture %s embeds texts and makes %w: %s", a.config.Arch, ErrNoLogits, consequence)
}

// A classifierHead makes scores of the hidden state of a text: W_out · act(W · x), with biases. A file may lack either
// matrix.
type classifierHead struct {
	pooling string // of the hidden states, as the poolings of package infer: "cls", "mean" or "last"
	dense   bool   // files may have the inner matrix
	single  bool   // the inner matrix makes one score
	gelu    bool   // the activation is exact GELU, not tanh
	norm    bool   // files may have the weights of a norm behind the activation
	softMax bool   // scores add up to one
}

// labels are the names of the classes that the model scores.
var labels = key{
	name: "classifier.output_labels",
	read: func(m *metadata, name string, c *Config) {
		if _, isList := m.list(m.arch + "." + name); isList {
			c.Labels = value(m, m.arch+"."+name, []string(nil), true)
		}
	},
	write: func(c *Config) any {
		if c.Labels == nil {
			return nil
		}
		return c.Labels
	},
}

// classifierPooling says what a classifier sees of a text.
var classifierPooling = key{
	name: "classifier.pooling_type",
	read: func(m *metadata, name string, c *Config) {
		if c.ClassifierPool = m.size(name, 0, true); classifierPoolings[c.ClassifierPool] == "" && c.ClassifierPool != 0 {
			m.fault("%s.%s is %d, which is unsupported; 1 (mean) and 2 (cls) are supported", m.arch, name, c.ClassifierPool)
		}
	},
	write: func(c *Config) any {
		if c.ClassifierPool == 0 {
			return nil
		}
		return uint32(c.ClassifierPool)
	},
}

var classifierPoolings = map[int]string{1: "mean", 2: "cls"}

// A Classifier scores texts.
type Classifier struct {
	// Pooling is its input from a text's hidden states: "cls" is the first token's, "last" the last one's, "mean" their mean.
	Pooling string
	Labels  []string // names of the scores; nil: there is one score
}

// Classifier returns the head by which the model scores texts, and whether its file has one.
func (a *Architecture) Classifier() (c Classifier, ok bool) {
	h := a.get().config.spec().classifier
	if h == nil || a.Weight("cls.weight") == nil && a.Weight("cls.output.weight") == nil {
		return Classifier{}, false
	}
	return Classifier{Pooling: cmp.Or(classifierPoolings[a.config.ClassifierPool], h.pooling), Labels: a.config.Labels}, true
}

// Classify returns the scores [classes, n] of pooled hidden states x [n_embd, n].
func (b *Builder) Classify(t *nn.Tape, x *nn.Value) *nn.Value {
	h := b.spec().classifier
	if h == nil {
		return x
	}
	embd, classes := int64(b.config.Embd), int64(max(1, len(b.config.Labels)))
	inner := embd
	if h.single {
		inner = 1
	}
	p, norm := b.outside(), b.outside().normOf()
	dense, output := p.optionalMatrix("cls", embd, inner, h.dense), p.optionalMatrix("cls.output", embd, classes, !h.single)
	norm.Weight = p.optionalNorm("cls.norm", inner, h.norm)
	if dense.W != nil {
		x = t.Linear(x, dense)[0]
		if h.gelu {
			x = &nn.Value{T: t.C.GeluErf(x.T)} // nothing trains it
		} else {
			x = t.Softcap(x, 1)
		}
		if norm.Weight != nil {
			x = t.Norm(x, norm)
		}
	}
	if output.W != nil {
		x = t.Linear(x, output)[0]
	}
	if h.softMax {
		x = t.SoftMax(x)
	}
	return x
}

// optionalMatrix declares an optional matrix [in, out] with its bias, which is not trained. With there false the model has
// none.
func (p Place) optionalMatrix(kind Kind, in, out int64, there bool) nn.Matrix {
	if !there {
		return nn.Matrix{}
	}
	m := p.matrixOf(Weight{Kind: kind, Shape: []int64{in, out}, Role: Unused, Optional: true, NoLoRA: true})
	m.Bias = p.Weight(Weight{Kind: kind, Name: string(kind) + ".bias", Shape: []int64{out}, Role: Unused, Optional: true})
	return m
}

// optionalNorm declares the weights of a norm that files may lack.
func (p Place) optionalNorm(kind Kind, size int64, there bool) *ggml.Tensor {
	if !there {
		return nil
	}
	return p.Weight(Weight{Kind: kind, Shape: []int64{size}, Role: Unused, Optional: true})
}

// Projects reports whether the vector of a text is a projection of its pooled hidden states.
func (a *Architecture) Projects() bool {
	c := a.get().config
	return c.VectorSize > 0 || c.ProjectionWidth > 0
}

// Project returns the vectors [m, n] of texts whose pooled hidden states are x [n_embd, n].
func (b *Builder) Project(t *nn.Tape, x *nn.Value) *nn.Value {
	if project := b.spec().project; project != nil {
		return project(b, t, x)
	}
	return x
}
