package llmtest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/pages"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/model"
)

func TestPages(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| architecture | attention | feed-forward network | adapted matrices | in PEFT |\n|---|---|---|---|---|\n")
	for _, name := range arch.Architectures() {
		a := llmtest.ArchModel(t, name, ggml.F32).Architecture()
		attention, network := describe(a)
		var modules []string
		var matrices []string
		for _, w := range a.Weights() {
			note(&matrices, (w.Role == arch.Linear || w.Role == arch.ExpertMatrices) && w.IsAdaptable() && w.Layer >= 0 && !w.Named, string(w.Kind))
		}
		for _, m := range a.Modules() {
			w := a.Weight(m.Rows[0].Name + ".weight")
			note(&modules, m.Layer >= 0 && (w == nil || !w.Named), m.Name())
		}
		code := func(list []string) string {
			if len(list) == 0 {
				return "–"
			}
			return "`" + strings.Join(list, "` `") + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s |\n", name, strings.Join(attention, ", "), strings.Join(network, ", "), code(matrices), code(modules))
	}
	pages.CheckSection(t, "../../../docs/models.md", "models", rows.String())
	checkEncoders(t)
}

// checkEncoders writes the table of models that embed or score texts.
func checkEncoders(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("| architecture | attention | feed-forward network | makes |\n|---|---|---|---|\n")
	attention, network, makes := map[string][]string{}, map[string][]string{}, map[string][]string{}
	for _, name := range llmtest.Encoders() {
		m, err := model.Load(llmtest.EncoderFile(t, name, 1), model.LoadOptions{})
		require.NoError(t, err)
		defer m.Close()
		kind, scores := m.Config().Arch, "vectors"
		if _, ok := m.Architecture().Classifier(); ok {
			scores = "scores"
		}
		makes[kind] = union(makes[kind], []string{scores})
		a, n := describe(m.Architecture())
		attention[kind], network[kind] = union(attention[kind], a), union(network[kind], n)
	}
	for _, kind := range slices.Sorted(maps.Keys(makes)) {
		slices.Sort(makes[kind])
		slices.Reverse(makes[kind])
		fmt.Fprintf(&rows, "| %s | %s | %s | %s |\n", kind, strings.Join(attention[kind], ", "), strings.Join(network[kind], " or "), strings.Join(makes[kind], " or "))
	}
	pages.CheckSection(t, "../../../docs/models.md", "encoders", rows.String())
}

// union appends the elements of more that list lacks.
func union(list, more []string) []string {
	for _, x := range more {
		note(&list, true, x)
	}
	return list
}

func note(list *[]string, there bool, what string) {
	if there && !slices.Contains(*list, what) {
		*list = append(*list, what)
	}
}

// describe lists the features of an architecture's attention and feed-forward networks.
func describe(a *arch.Architecture) (attention, network []string) {
	forward := func(f arch.FeedForward, what string) {
		act := f.Act.String()
		if f.Ungated != arch.Gated {
			act = f.Ungated.String() + " without a gate"
		}
		if f.SiTU.Gate != 0 {
			act = "situ"
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
			case arch.Normed:
				walk(p.Residuals())
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
			case arch.HyperConnected:
				note(&attention, true, "between several residual streams")
				walk(p.Residuals())
			case arch.AttentionResidual:
				note(&attention, true, "on weighted sums of residual streams")
				walk(p.Residuals())
			case arch.LatentExperts:
				note(&network, true, "experts of a latent vector")
				walk([]arch.Residual{{Part: p.Experts}})
			case arch.Parallel:
				_, mixes := p[0].Part.(arch.Mamba2)
				note(&network, !mixes, "beside attention")
				walk(p)
			case arch.CompressedAttention:
				note(&attention, true, "windows and compressed keys")
				note(&attention, p.Indexer.Keys > 0, "of which an indexer chooses some")
				note(&attention, p.Sinks, "sinks")
			case arch.Attention:
				note(&attention, p.FusedQKV, "one matrix of queries, keys and values")
				note(&attention, slices.Contains([]arch.QKNorm{arch.PerHead, arch.EachHead, arch.HeadGroups, arch.QueryGains}, p.QKNorm), "queries and keys normalised per head")
				note(&attention, p.QKNorm == arch.AllHeads, "queries and keys normalised")
				note(&attention, p.NormAfterRoPE && p.QKNorm != arch.NoQKNorm, "after RoPE")
				note(&attention, p.SharedKV > 0, "keys and values of other layers")
				note(&attention, p.ValueNorm, "values normalised")
				note(&attention, p.SubNorm, "normalised before the output matrix")
				note(&attention, p.Bidirectional, "of all tokens, not only those before")
				note(&attention, p.Window > 0, "sliding windows")
				note(&attention, p.NoRoPE, "layers without RoPE")
				note(&attention, p.MaxALiBiBias > 0, "ALiBi")
				note(&attention, p.Relative.Buckets > 0, "biases by distance")
				note(&attention, p.RoPE.Sections != [4]int{}, "RoPE of sections")
				note(&attention, p.Softcap > 0, "capped scores")
				note(&attention, p.Sinks, "sinks")
				note(&attention, p.Gate != arch.NoGate, "gated")
				note(&attention, p.ValueRouter.Experts > 0, "values of experts")
				note(&attention, p.ClampQKV > 0, "clamped queries, keys and values")
				note(&attention, p.RoPEFactors, "RoPE factors")
				note(&attention, p.Temperature.Scale != 0, "temperature by position")
				note(&attention, p.Blocks.Keys > 0 && !p.Blocks.EachKVHead, "blocks of keys chosen by an indexer")
				note(&attention, p.Blocks.EachKVHead, "blocks of keys chosen by an indexer for each KV head")
			case arch.LatentAttention:
				note(&attention, true, "keys and values of latent vectors")
				note(&attention, p.Indexer.Keys > 0 && p.Indexer.Pool == 0, "keys chosen by an indexer")
				note(&attention, p.Indexer.Pool > 0, "pools of keys chosen by an indexer")
				note(&attention, p.Indexer.Shared > 0, "layers that reuse the choice of an earlier layer")
				walk([]arch.Residual{{Part: p.Attention}})
			case arch.ChannelMix:
				note(&network, true, fmt.Sprint(p))
			case arch.FeedForward:
				forward(p, "")
			case arch.Experts:
				forward(p.FeedForward, "experts: ")
				forward(p.Shared, "shared: ")
				note(&network, p.Limit > 0, "clamped")
			default:
				note(&attention, true, fmt.Sprint(p)) // its String names the feature
			}
		}
	}
	for _, layer := range a.Layers() {
		walk(layer)
	}
	return attention, network
}
