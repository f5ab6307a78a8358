package training

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
)

// samplesOf returns samples with these numbers of predicted tokens.
func samplesOf(lengths ...int) []data.Sample {
	var list []data.Sample
	for _, n := range lengths {
		list = append(list, data.Sample{Tokens: make([]int32, n+1)})
	}
	return list
}

// Lengths are of samples, not of rows; rows of short samples suggest packing.
func TestDescribeRows(t *testing.T) {
	for _, c := range []struct {
		samples    []data.Sample
		rows       string
		suggestion string
	}{
		{samplesOf(16), "1 sample of 16 tokens", ""},
		{samplesOf(16, 16, 16), "3 samples of 16 tokens", ""},
		{samplesOf(16, 15, 16), "3 samples of 16 tokens", ""},
		{samplesOf(9, 7, 8, 10), "4 samples of at most 10 tokens, 8 on average", ""},
		{samplesOf(1), "1 sample of 1 token", ""},
		{samplesOf(4, 2, 3), "3 samples of at most 4 tokens, 3 on average", "samples fill only 19 % of their rows: --packing would need about 1 row instead of 3\n"},
		{samplesOf(4, 6, 3, 5, 1), "5 samples of at most 6 tokens, 4 on average", "samples fill only 24 % of their rows: --packing would need about 2 rows instead of 5\n"},
	} {
		d := data.New(16, c.samples)
		require.Equal(t, c.rows, DescribeRows(d))
		var out strings.Builder
		suggestPacking(&out, d)
		require.Equal(t, c.suggestion, out.String())
	}
	packed := need.Value(data.New(16, samplesOf(4, 6, 3, 5, 1)).Packed(0))(t)
	require.Equal(t, "5 samples of at most 6 tokens, 4 on average, in 2 rows of 16, 59 % full", DescribeRows(packed))
	var out strings.Builder
	suggestPacking(&out, data.New(16, nil))
	require.Empty(t, out.String())
}
