package docscheck

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	generated "github.com/goggml/ggml/internal/test/pages"
)

// A table has rows of cells by column name.
type table []map[string]string

// tables reads all tables of a page under docs/benchmarks.
func tables(t *testing.T, page string) table {
	t.Helper()
	var rows table
	var names []string
	for line := range strings.Lines(read(t, filepath.Join(root, "docs", "benchmarks", page))) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			names = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		row := map[string]string{}
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
			if i < len(names) {
				row[names[i]] = cells[i]
			}
		}
		switch {
		case names == nil:
			names = cells
		case !strings.HasPrefix(cells[0], "---"):
			rows = append(rows, row)
		}
	}
	return rows
}

// fits reports whether a row has these cells.
func fits(row, cells map[string]string) bool {
	for name, want := range cells {
		if row[name] != want {
			return false
		}
	}
	return true
}

// number returns the value of a column in the only row that has these cells.
func (rows table) number(t *testing.T, column string, cells map[string]string) float64 {
	t.Helper()
	var found []string
	for _, row := range rows {
		if row[column] != "" && fits(row, cells) {
			found = append(found, row[column])
		}
	}
	require.Len(t, found, 1, "%s of %v", column, cells)
	return need.Value(strconv.ParseFloat(found[0], 64))(t)
}

// conversations is the number of tokens for the table of minutes.
const conversations = 2000 * 250

// summary computes the figures of the front page from the tables of measurements.
func summary(t *testing.T) string {
	t.Helper()
	amx, avx, fp16 := tables(t, "README.md"), tables(t, "avx512/README.md"), tables(t, "avx512-fp16/README.md")
	peft, peftAVX := tables(t, "peft.md"), tables(t, "avx512/peft.md")
	ours := map[string]string{"model": "1.1B", "program": "goggml", "weights": "Q8_0", "checkpointing": "off"}
	theirs := map[string]string{"model": "1.1B", "program": "PEFT", "weights": "BF16", "checkpointing": "off"}
	adapter := map[string]string{"model": "1.1B", "weights, with an adapter of rank 16": "q8_0", "": "generate"}
	speed, memory := "tokens/s", "peak MB"

	var b strings.Builder
	b.WriteString(`# The figures of the front page

Computed from the tables of measurements by ` + "`scripts/pages`" + `; all are of the shape of 1.1 billion parameters, LoRA of rank 8 on all linear layers, on two cores. Absolute times belong to these machines.

| figure | is |
|---|---|
`)
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("| %.1f times | tokens/s of training, Q8_0, beside PyTorch with PEFT in BF16, with AMX: [PEFT](peft.md) |",
		peft.number(t, speed, ours)/peft.number(t, speed, theirs))
	line("| %.1f GB and %.1f GB | memory of the same two |", peft.number(t, memory, ours)/1000, peft.number(t, memory, theirs)/1000)
	line("| %.1f times | tokens/s of training beside the faster of PEFT in F32 and BF16, without AMX: [PEFT](avx512/peft.md) |",
		peftAVX.number(t, "tokens/s × the faster PEFT's", ours))
	line("| %.1f times | decode with an adapter, Q8_0, beside stock llama.cpp with the same build of ggml: [generation](README.md#generation-beside-stock-llamacpp) |",
		amx.number(t, "ratio, same plugin", adapter))
	b.WriteString("\n## 2,000 conversations of 250 tokens\n\nOne epoch, 500,000 tokens, at the speed of the tables of [AMX](README.md#training-steps-by-type-of-the-base), [AVX512-FP16 with oneMKL](avx512-fp16/README.md#training-steps-by-type-of-the-base) and [AVX-512](avx512/README.md#training-steps-by-type-of-the-base); the largest memory of the three.\n\n")
	b.WriteString("| base | memory | AMX | AVX512-FP16 | AVX-512 |\n|---|---:|---:|---:|---:|\n")
	for _, r := range []struct{ name, base, checkpointing string }{
		{"1.1B, Q4_K", "q4_K", "off"}, {"1.1B, Q4_K, checkpointing", "q4_K", "on"}, {"1.1B, Q8_0", "q8_0", "off"},
	} {
		row := func(compute string) map[string]string {
			return map[string]string{"model": "1.1B", "base": r.base, "compute type": compute, "checkpointing": r.checkpointing}
		}
		minutes := func(rows table, compute string) string {
			return fmt.Sprintf("%.0f min", conversations/rows.number(t, speed, row(compute))/60)
		}
		most := max(amx.number(t, memory, row("bf16")), fp16.number(t, memory, row("f16")), avx.number(t, memory, row("f32")))
		line("| %s | %.1f GB | %s | %s | %s |", r.name, most/1000, minutes(amx, "bf16"), minutes(fp16, "f16"), minutes(avx, "f32"))
	}
	b.WriteString("\n" + processors(t))
	return b.String()
}

// processors compares the pages of kinds of processors.
func processors(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`## Kinds of processors

Each was measured on two cores. Training is of 1.1 billion parameters on Q8_0, in the fastest arithmetic that rounds no more than BF16; the peak is that of GEMM, and PEFT the faster of F32 and BF16. Prefill and decode are without an adapter: a cell has the least and the greatest ratio of all types, sizes and numbers of sequences.

| processor | arithmetic | tokens/s | share of the peak | × PEFT | × PEFT, checkpointed | memory × PEFT's | prefill × llama.cpp | decode × llama.cpp |
|---|---|---:|---:|---:|---:|---:|---:|---:|
`)
	pages := need.Value(filepath.Glob(filepath.Join(root, "docs", "benchmarks", "*", "processor.md")))(t)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		folder := filepath.Base(filepath.Dir(page))
		rows := tables(t, folder+"/processor.md")
		fastest := map[string]string{"model": "1.1B", "arithmetic": "bf16"}
		if !slices.ContainsFunc(rows, func(row map[string]string) bool { return fits(row, fastest) }) {
			fastest["arithmetic"] = "i16"
		}
		ours := func(column, checkpointing string) float64 {
			return rows.number(t, column, map[string]string{"model": "1.1B", "program": "goggml", "weights": "Q8_0", "checkpointing": checkpointing})
		}
		const speed, memory = "tokens/s × the faster PEFT's", "memory × the faster PEFT's"
		fmt.Fprintf(&b, "| [%s](%s/processor.md) | %s | %.0f | %.0f %% | %.2f | %.2f | %.2f | %s | %s |\n", folder, folder, fastest["arithmetic"],
			rows.number(t, "tokens/s", fastest), rows.number(t, "share of it, %", fastest), ours(speed, "off"), ours(speed, "on"), ours(memory, "off"),
			rows.ratios(t, func(work string) bool { return work == "prompt" }), rows.ratios(t, func(work string) bool { return work != "prompt" }))
	}
	return b.String()
}

// ratios returns the range of the ratios to stock llama.cpp without an adapter, for some kinds of work.
func (rows table) ratios(t *testing.T, of func(work string) bool) string {
	t.Helper()
	least, greatest := math.Inf(1), math.Inf(-1)
	for _, row := range rows {
		if row["weights, KV cache in F16"] != "" && of(row[""]) {
			ratio := need.Value(strconv.ParseFloat(row["ratio"], 64))(t)
			least, greatest = min(least, ratio), max(greatest, ratio)
		}
	}
	if least > greatest {
		return "not measured"
	}
	return fmt.Sprintf("%.2f–%.2f", least, greatest)
}

func TestPages(t *testing.T) {
	generated.Check(t, filepath.Join(root, "docs", "benchmarks", "summary.md"), summary(t))
}
