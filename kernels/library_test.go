package kernels_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
)

// The choice of the library, in separate processes: with every library, the same operands are
// refused for the same reasons.
func TestGEMMLibrary(t *testing.T) {
	need.Time(t, "runs tests with each library")
	if os.Getenv("GOGGML_TEST_LIBRARY") != "" {
		describeLibrary(t)
		return
	}
	for _, k := range []struct{ set, want string }{
		{"GOGGML_BLAS=none", `library "", bf16 false`},
		{"GOGGML_BLAS=libopenblas.so.0", `library "libopenblas.so.0", bf16 false`},
		{"ONEDNN_MAX_CPU_ISA=AVX2", `bf16 false`},
		{"GOGGML_BLAS=", `library "`},
	} {
		out, err := withLibrary(k.set, "^(TestGEMMLibrary|TestGEMMLarge|TestGEMMErrors|TestLoRAErrors)$")
		require.NoError(t, err, "%s: %s", k.set, out)
		require.Contains(t, out, k.want, k.set)
	}
}

// The products of oneDNN's other code paths: each instruction set has its own kernels, and its own
// faults. A processor without the instructions uses its own path.
func TestScanOtherInstructions(t *testing.T) {
	need.Time(t, "runs a test for each instruction set")
	for _, isa := range []string{"AVX2", "AVX512_CORE", "AVX512_CORE_BF16"} {
		out, err := withLibrary("ONEDNN_MAX_CPU_ISA="+isa, "^TestScan$")
		require.NoError(t, err, "%s: %s", isa, out)
		require.Contains(t, out, "--- PASS: TestScan", isa)
	}
}

// withLibrary runs tests in a process with an environment variable.
func withLibrary(set, tests string, flags ...string) (string, error) {
	c := exec.Command(os.Args[0], append(flags, "-test.run", tests, "-test.v")...)
	c.Env = append(os.Environ(), "GOGGML_TEST_LIBRARY=yes", set)
	out, err := c.CombinedOutput()
	return string(out), err
}

func describeLibrary(t *testing.T) {
	t.Logf("library %q, bf16 %v", library(t), kernels.HasBF16())
	if kernels.HasBF16() {
		return
	}
	c := ggml.NewContext()
	defer c.Close()
	kernels.GEMM(c, exact, pair(c.NewTensor(ggml.F32, 8, 3), c.NewTensor(ggml.BF16, 8, 2)))
	require.ErrorContains(t, c.Err(), "GEMM in BF16 needs oneDNN and a processor with AVX512-BF16 or AMX; give F32")
}

// If the named file cannot be loaded, everything that would use it fails, and nothing else.
func TestGEMMLibraryCannotBeLoaded(t *testing.T) {
	if os.Getenv("GOGGML_TEST_LIBRARY") == "" {
		for set, want := range map[string]string{
			"GOGGML_BLAS=/nonexistent": "/nonexistent: ", // the loader's message
			"GOGGML_BLAS=libc.so.6":    "libc.so.6 has neither the interface of oneDNN 3 nor CBLAS",
		} {
			out, err := withLibrary(set, "^TestGEMMLibraryCannotBeLoaded$")
			require.NoError(t, err, "%s: %s", set, out)
			require.Contains(t, out, "the GEMM library that GOGGML_BLAS names cannot be loaded: "+want)
		}
		return
	}
	name, err := kernels.GEMMLibrary()
	require.Empty(t, name)
	require.ErrorContains(t, err, "name another file, or none, or unset it")
	t.Log(err)
	require.Equal(t, ggml.F32, kernels.FastestType())
	x := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	for _, op := range []func(c *ggml.Context){
		func(c *ggml.Context) { kernels.GEMM(c, exact, pair(x(c, 8, 3), x(c, 8, 2))) },
		func(c *ggml.Context) { kernels.GEMMGradInput(c, exact, pair(x(c, 8, 3), x(c, 3, 2))) },
		func(c *ggml.Context) { kernels.GEMMGradWeight(c, x(c, 8, 2), x(c, 3, 2)) },
		func(c *ggml.Context) { kernels.AccumulateGradWeight(c, x(c, 8, 3), x(c, 8, 2), x(c, 3, 2)) },
		func(c *ggml.Context) { kernels.AddLoRA(c, x(c, 3, 2), loraPairs(x(c, 3, 5), x(c, 5, 2))...) },
		func(c *ggml.Context) {
			kernels.GEMMLoRA(c, exact, pair(x(c, 8, 3), x(c, 8, 2)), loraPairs(x(c, 3, 5), x(c, 5, 2))...)
		},
		func(c *ggml.Context) {
			kernels.CausalAttention(c, attention(x(c, 8, 2, 3), x(c, 8, 2, 3), x(c, 8, 2, 3), 1))
		},
	} {
		c := ggml.NewContext()
		op(c)
		require.ErrorContains(t, c.Err(), err.Error())
		c.Close()
	}
	c := ggml.NewContext()
	defer c.Close()
	kernels.GEMV(c, x(c, 8), x(c, 8, 3))
	kernels.SumSquares(c, kernels.CastBF16(c, x(c, 8)))
	require.ErrorContains(t, c.Err(), "a has type bf16; it must have f32")
}
