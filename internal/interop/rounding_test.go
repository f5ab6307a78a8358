//go:build interop

package interop

import (
	"fmt"
	"testing"

	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/model"
)

// A rounding is the error of stock's logits of a quantised model that comes from rounding the other
// operand of products to 8 bits. A value next to the border between two roundings goes to one or
// the other by the order of the sums before. So stock's CPU plugins differ from one another, in
// some files by next to nothing and in some by a tenth of the loss, by chance. Their distance to
// the exact logits is not chance.
type rounding struct {
	exact    [][]float32 // of the same values in F32, where nothing is rounded
	stock    [][]float32 // by the plugin that stock chooses
	farthest float64     // the largest NMSE of a plugin's logits from the exact ones
	apart    float64     // the largest NMSE of two plugins'
	factor   float64     // of the farthest, that ours may be
}

// borderline is how much more than the farthest of stock's plugins ours may lose, because of values next
// to a border. In a thousand comparisons that was up to 5 %, and 2 % between two plugins. With experts, a
// token that goes to other experts than in F32 outweighs all other errors, and which tokens do is chance.
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

// allows reports whether logits are as near to the exact ones as the logits of stock's plugins are.
func (r rounding) allows(logits [][]float32) bool {
	return nmse(logits, r.exact) <= r.factor*r.farthest
}
