package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
)

// Runs that began with i8, the former name of int16, continue.
func TestComputeTypeOfIntegers(t *testing.T) {
	if !kernels.HasIntegers() {
		t.Skip("the processor has no kernel for integers")
	}
	e := need.Value(device.New(device.Options{}))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for _, name := range []string{"int16", "i8"} {
		p := &trainCommand{ComputeType: name}
		require.Equal(t, ggml.I16, need.Value(p.computeType(e))(t))
	}
	require.Equal(t, "int16", computeTypeName(ggml.I16))
	require.Equal(t, "bf16", computeTypeName(ggml.BF16))
}
