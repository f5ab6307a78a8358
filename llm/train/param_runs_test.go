package train

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// Parameters form a run if they are adjacent in the same tensor and updated by the same settings.
func TestRunsOfParameters(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	whole, other := c.NewTensor(ggml.F32, 1000), c.NewTensor(ggml.F32, 3*runElements)
	part := func(of *ggml.Tensor, from int64, shape ...int64) parameter {
		return parameter{Tensor: c.View(of, shape, nil, 4*from)}
	}
	params := []parameter{
		part(whole, 100, 10, 5),            // 0
		{Tensor: c.NewTensor(ggml.F32, 4)}, // 1
		part(whole, 0, 100),                // 2: before 0
		part(whole, 150, 8, 4),             // 3: after 0
		part(whole, 182, 8),                // 4: after 3, in another group
		part(whole, 190, 10),               // 5: after 4
		part(whole, 201, 3),                // 6: after a gap
		part(other, 0, runElements-1),      // 7
		part(other, runElements-1, 2),      // 8: too large for one run
		part(other, runElements+1, 5),      // 9
		{Tensor: c.NewTensor(ggml.F32, 4)}, // 10
		{Tensor: c.View(whole, []int64{2, 2}, []int64{4 * 16}, 4*204)}, // 11: with gaps
	}
	var members [][]int
	for _, r := range runsOf(params, []int{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1}) {
		members = append(members, r.members)
	}
	require.ElementsMatch(t, [][]int{{1}, {10}, {2, 0, 3}, {4, 5}, {6}, {7}, {8, 9}, {11}}, members)
	require.Equal(t, []int{1}, members[0], "those that are no parts keep their order")
}
