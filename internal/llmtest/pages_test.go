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
		forward := func(f arch.FeedForward, what string) {
			act := f.Act.String()
			if f.Ungated != arch.Gated {
				act = f.Ungated.String() + " without a gate"
			}
			if f.SubNorm {
				act += ", normalised"
			}
			note(&network, f.Width > 0, what+act)
		}
		var walk func(residuals []arch.Residual)
		walk = func(residuals []arch.Residual) {
			for _, r := range residuals {
				switch p := r.Part.(type) {
				case arch.Stack:
					walk(p)
				case arch.RoutedEarly:
					note(&network, true, "experts chosen by what attention sees")
					walk([]arch.Residual{p.Attention, p.Experts})
				case arch.AltUp:
					note(&attention, true, "several versions of each token")
					walk([]arch.Residual{p.Attention, p.Network, {Part: p.Embedding}})
				case arch.BesideExperts:
					note(&network, true, "beside experts")
					walk([]arch.Residual{p.Network, p.Experts})
				case arch.GroveExperts:
					note(&network, true, "small experts behind the others")
					walk([]arch.Residual{{Part: p.Experts}})
				case arch.LatentExperts:
					note(&network, true, "experts of a latent vector")
					walk([]arch.Residual{{Part: p.Experts}})
				case arch.Parallel:
					_, mixes := p[0].Part.(arch.Mamba2)
					note(&network, !mixes, "beside attention")
					walk(p)
				case arch.Attention:
					note(&attention, p.FusedQKV, "one matrix of queries, keys and values")
					note(&attention, slices.Contains([]arch.QKNorm{arch.PerHead, arch.EachHead, arch.HeadGroups, arch.QueryGains}, p.QKNorm), "queries and keys normalised per head")
					note(&attention, p.QKNorm == arch.AllHeads, "queries and keys normalised")
					note(&attention, p.NormAfterRoPE && p.QKNorm != arch.NoQKNorm, "after RoPE")
					note(&attention, p.SharedKV > 0, "keys and values of other layers")
					note(&attention, p.ValueNorm, "values normalised")
					note(&attention, p.SubNorm, "what is gathered normalised")
					note(&attention, p.Bidirectional, "of all tokens, not only those before")
					note(&attention, p.Window > 0, "sliding windows")
					note(&attention, p.NoRoPE, "layers without RoPE")
					note(&attention, p.MaxALiBiBias > 0, "ALiBi")
					note(&attention, p.RoPE.Sections != [4]int{}, "RoPE of sections")
					note(&attention, p.Softcap > 0, "bent scores")
					note(&attention, p.Sinks, "sinks")
					note(&attention, p.Gate != arch.NoGate, "gated")
					note(&attention, p.ValueRouter.Experts > 0, "values of experts")
					note(&attention, p.ClampQKV > 0, "clamped queries, keys and values")
					note(&attention, p.RoPEFactors, "RoPE factors")
					note(&attention, p.Temperature.Scale != 0, "temperature by position")
				case arch.LatentAttention:
					note(&attention, true, "keys and values of latent vectors")
					walk([]arch.Residual{{Part: p.Attention}})
				case arch.FeedForward:
					forward(p, "")
				case arch.Experts:
					forward(p.FeedForward, "experts: ")
					forward(p.Shared, "shared: ")
					note(&network, p.Limit > 0, "limited")
				default:
					note(&attention, true, fmt.Sprint(p)) // which says what it is
				}
			}
		}
		for _, layer := range a.Layers() {
			walk(layer)
		}
		var matrices []string
		for _, w := range a.Weights() {
			note(&matrices, w.Role == arch.Linear && w.IsAdaptable() && w.Layer >= 0 && !w.Named, w.Kind)
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
