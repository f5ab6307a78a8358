package ggml_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goggml/ggml"
)

// misuse are the operands of the tests of wrong calls.
type misuse struct {
	c                 *ggml.Context
	a, b, ids, q, row *ggml.Tensor
}

func (m *misuse) kernel() *ggml.Tensor { return m.c.NewTensor(ggml.F32, 3, 3, 2, 4).SetName("k") }

func (m *misuse) image() *ggml.Tensor { return m.c.NewTensor(ggml.F32, 8, 8, 2).SetName("x") }

func (m *misuse) vector(n int64) *ggml.Tensor { return m.c.NewTensor(ggml.F32, n).SetName("v") }

func newMisuse() *misuse {
	c := ggml.NewContext()
	return &misuse{
		c:   c,
		a:   c.NewTensor(ggml.F32, 4, 3).SetName("a"),
		b:   c.NewTensor(ggml.F32, 5, 2).SetName("b"),
		ids: c.NewTensor(ggml.I32, 2).SetName("ids"),
		q:   c.NewTensor(ggml.Q8_0, 32, 2).SetName("q"),
		row: c.NewTensor(ggml.F32, 4, 1, 6).SetName("row"),
	}
}

// An opError is an op on bad operands, and its error without the caller.
type opError struct {
	build func(m *misuse)
	want  string
}

func requireOpErrors(t *testing.T, cases []opError) {
	t.Helper()
	for _, k := range cases {
		m := newMisuse()
		k.build(m)
		assert.EqualError(t, m.c.Err(), fmt.Sprintf("ggml: %s (at %s)", k.want, callerOf(k.build)), k.want)
		var e *ggml.OpError
		assert.ErrorAs(t, m.c.Err(), &e)
		m.c.Close()
	}
}
