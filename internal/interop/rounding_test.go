//go:build interop

package interop

import (
	"fmt"
	"testing"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/model"
)

// A rounding is the error in stock's logits of a quantised model that comes from rounding activations to 8
// bits. Close to a rounding boundary, the order of the preceding sums decides the direction. So stock's CPU
// plugins differ from one another at random, in some files by almost nothing and in some by a tenth of the
// error. Their distance to the exact logits is not random.
type rounding struct {
	exact    [][]float32 // of the same values in F32, without rounding
	stock    [][]float32 // by the plugin that stock selects
	farthest float64     // largest NMSE of a plugin's logits against the exact ones
	apart    float64     // largest NMSE between two plugins
	factor   float64     // limit of our error, relative to farthest
}

// borderline is how much more than stock's worst plugin ours may lose, because of values close to a rounding
// boundary. In a thousand comparisons that was up to 5 %, and 2 % between two plugins. With experts, a token
// that is routed to other experts than in F32 outweighs all other errors, and which tokens are is random.
const borderline, choices = 1.1, 2

func measureRounding(t *testing.T, m *model.Model, variants []*cpuVariant, tokens []int32) rounding {
	t.Helper()
	r := rounding{exact: stockLogits(t, llmtest.Dequantised(t, m).Path, tokens), stock: stockLogits(t, m.Path, tokens)}
	r.factor = borderline
	if m.Config().Experts > m.Config().ExpertsUsed {
		r.factor = choices
	}
	plugins := [][][]float32{r.stock}
	for _, v := range variants {
		plugins = append(plugins, v.logits(t, m.Path, tokens))
	}
	for i, x := range plugins {
		r.farthest = max(r.farthest, nmse(x, r.exact))
		for _, y := range plugins[:i] {
			r.apart = max(r.apart, nmse(x, y))
		}
	}
	return r
}

// compare describes how far logits are from stock's and from the exact ones.
func (r rounding) compare(logits [][]float32) string {
	return fmt.Sprintf("NMSE %.2g, stock's plugins up to %.2g from each other; from exact %.3g, stock's up to %.3g", nmse(logits, r.stock), r.apart, nmse(logits, r.exact), r.farthest)
}

// allows reports whether logits are as close to the exact ones as the logits of stock's plugins are.
func (r rounding) allows(logits [][]float32) bool {
	return nmse(logits, r.exact) <= r.factor*r.farthest
}
