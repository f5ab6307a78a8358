package llmtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/pages"
	"github.com/goggml/ggml/llm/arch"
)

func TestPages(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| architecture | attention | feed-forward network | adapted matrices | in PEFT |\n|---|---|---|---|---|\n")
	for _, name := range arch.Architectures() {
		a := llmtest.ArchModel(t, name, ggml.F32).Architecture()
		var attention, network, modules []string
		note := func(list *[]string, there bool, what string) {
			if there && !slices.Contains(*list, what) {
				*list = append(*list, what)
			}
		}
		forward := func(f arch.FeedForward, what string) { note(&network, f.Width > 0, what+f.Act.String()) }
		for _, layer := range a.Layers() {
			for _, r := range layer {
				switch p := r.Part.(type) {
				case arch.Attention:
					note(&attention, p.FusedQKV, "one matrix of queries, keys and values")
					note(&attention, p.QKNorm == arch.PerHead, "queries and keys normalised per head")
					note(&attention, p.QKNorm == arch.AllHeads, "queries and keys normalised")
					note(&attention, p.Window > 0, "sliding windows")
					note(&attention, p.NoRoPE, "layers without positions")
					note(&attention, p.RoPEFactors, "RoPE factors")
					note(&attention, p.Temperature.Scale != 0, "temperature by position")
				case arch.FeedForward:
					forward(p, "")
				case arch.Experts:
					forward(p.FeedForward, "experts: ")
					forward(p.Shared, "shared: ")
				default:
					note(&network, true, fmt.Sprintf("%T", p))
				}
			}
		}
		var matrices []string
		for _, w := range a.Weights() {
			note(&matrices, w.Role == arch.Linear && w.Layer >= 0 && !w.Named, w.Kind)
		}
		for _, m := range a.Modules() {
			w := a.Weight(m.Rows[0].Name + ".weight")
			note(&modules, m.Layer >= 0 && (w == nil || !w.Named), m.Name())
		}
		code := func(list []string) string { return "`" + strings.Join(list, "` `") + "`" }
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n", name, strings.Join(attention, ", "), strings.Join(network, ", "), code(matrices), code(modules))
	}
	pages.CheckSection(t, "../../docs/models.md", "models", rows.String())
}
