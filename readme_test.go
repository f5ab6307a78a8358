package ggml_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func must[T any](v T, err error) T {
	check(err)
	return v
}

func Example_tenLines() {
	backend := must(ggml.NewCPUBackend(0))
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 2, 1) // 3 rows of 2 numbers, and 1
	product := c.MulMat(a, b)                                        // every row of a times every row of b
	defer must(c.Allocate(backend.BufferType())).Close()
	check(errors.Join(ggml.Write(a, []float32{1, 2, 3, 4, 5, 6}), ggml.Write(b, []float32{10, 1})))
	check(backend.Compute(context.Background(), c.NewGraph(product)))
	fmt.Println(must(ggml.Read[float32](product))) // [12 34 56]
	// Output: [12 34 56]
}

// The Go code of the README is the body of the example above.
func TestREADMECode(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, found := strings.Cut(rest, "```")
	require.True(t, found)
	example, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	require.Contains(t, unindent(string(example)), unindent(code))
}

func unindent(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
