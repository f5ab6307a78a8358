package training

import (
	"fmt"
	"io"
	"math"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
)

// DescribeRows reports the number and the length of samples and, if several share a row, how full the rows are.
func DescribeRows(d *data.Dataset) string {
	longest, mean := d.Longest(), float64(d.NumTokens())/float64(d.NumSamples())
	text := fmt.Sprintf("%s of %s", cli.Count(d.NumSamples(), "sample"), cli.Count(longest, "token"))
	if int(math.Round(mean)) < longest {
		text = fmt.Sprintf("%s of at most %s, %.0f on average", cli.Count(d.NumSamples(), "sample"), cli.Count(longest, "token"), mean)
	}
	if d.IsPacked() {
		text += fmt.Sprintf(", in %s of %d, %.0f %% full", cli.Count(d.Len(), "row"), d.Length, 100*d.Fill())
	}
	return text
}

// suggestPacking suggests --packing if it at least halves the rows: a row with one short sample costs as much
// as a full one.
func suggestPacking(w io.Writer, d *data.Dataset) {
	if d.Len() == 0 {
		return
	}
	fill := d.Fill()
	if packed := int(math.Ceil(fill * float64(d.Len()))); 2*packed <= d.Len() {
		fmt.Fprintf(w, "samples fill only %.2g %% of their rows: --packing would need about %s instead of %d\n", 100*fill, cli.Count(packed, "row"), d.Len())
	}
}
