package placement

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWriteUnusedGPU(t *testing.T) {
	var out strings.Builder
	writeUnusedGPU(&out, "")
	require.Empty(t, out.String())
	writeUnusedGPU(&out, "this machine has a driver for an AMD GPU, and ggml does not use it: run scripts/vendor --gpu vulkan")
	require.Equal(t, "this machine has a driver for an AMD GPU, and ggml does not use it: run scripts/vendor --gpu vulkan (--device CPU computes without this line)\n", out.String())
}
