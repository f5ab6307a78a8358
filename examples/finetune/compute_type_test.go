package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/device"
)

// The compute types of integers have a name each.
func TestComputeTypeOfIntegers(t *testing.T) {
	if !kernels.HasIntegers() {
		t.Skip("the processor has no kernel for integers")
	}
	e := need.Value(device.New(device.Options{}))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for name, typ := range map[string]ggml.Type{"int16": ggml.I16, "i8": ggml.I8} {
		p := &trainCommand{ComputeType: name}
		require.Equal(t, typ, need.Value(p.computeType(e, ""))(t))
		require.Equal(t, name, computeTypeName(typ))
	}
	require.Equal(t, "bf16", computeTypeName(ggml.BF16))
}
