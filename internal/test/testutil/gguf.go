package testutil

import (
	"strings"

	"github.com/goggml/ggml"
)

// GGUFTensors returns tensors of types with and without blocks, with their data.
func GGUFTensors() ([]ggml.GGUFTensor, [][]byte) {
	list := []ggml.GGUFTensor{
		{Name: "token_embd.weight", Type: ggml.Q8_0, Shape: []int64{64, 5}},
		{Name: "odd", Type: ggml.F32, Shape: []int64{3}},
		{Name: "half", Type: ggml.F16, Shape: []int64{7, 3, 2}},
		{Name: "four", Type: ggml.Q4_K, Shape: []int64{256, 2, 1, 3}},
		{Name: "scalar", Type: ggml.I64, Shape: []int64{1}},
		{Name: strings.Repeat("x", 63), Type: ggml.I8, Shape: []int64{1, 1, 5}},
	}
	var data [][]byte
	for i := range list {
		list[i].Size = list[i].Type.RowSize(list[i].NumElements())
		data = append(data, make([]byte, list[i].Size))
		for j := range data[i] {
			data[i][j] = byte(i + 7*j)
		}
	}
	return list, data
}
