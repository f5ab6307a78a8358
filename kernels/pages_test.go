package kernels_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml/internal/fuzz"
	"github.com/goggml/ggml/internal/fuzz/calls"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/pages"
)

func TestPages(t *testing.T) {
	if library(t) == "" {
		t.Skip("without a GEMM library ops are made of others")
	}
	if lacking := slices.DeleteFunc(fuzz.Kernels(), fuzz.Computes); len(lacking) > 0 {
		t.Skip("the processor lacks instructions of ", lacking)
	}
	p := need.Value(calls.Load("."))(t)
	built := optest.FindBuilders(t, functions, opCases())
	var rows strings.Builder
	rows.WriteString("| function | computes | in a profile |\n|---|---|---|\n")
	for _, f := range p.Funcs {
		if slices.Contains(fuzz.Kernels(), f.Name) {
			what := strings.TrimSuffix(strings.TrimPrefix(p.Synopsis(f.Doc), f.Name+" "), ".")
			fmt.Fprintf(&rows, "| `%s` | %s | `%s` |\n", f.Name, strings.TrimSuffix(what, ":"), strings.Join(built.Result[f.Name], "`, `"))
		}
	}
	pages.CheckSection(t, "../docs/kernels.md", "kernels", rows.String())
}
