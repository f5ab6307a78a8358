package ggml_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestDatasetShuffles(t *testing.T) {
	g := newRegression(12)
	r := newRegressor(t, g, 4, 1)
	o := r.static(t, adamWOptions(1))
	d := need.Value(ggml.NewDataset(ggml.DatasetOptions{Samples: 12, SampleSize: 1, LabelSize: 1, DataType: ggml.I32, LabelType: ggml.I64, Shard: 3}))(t)
	defer d.Close()
	require.EqualValues(t, 12, d.NumSamples())
	data := make([]int32, 12)
	labels := make([]int64, 12)
	for i := range data {
		data[i], labels[i] = int32(i), int64(100+i)
	}
	require.NoError(t, ggml.Write(d.Data(), data))
	require.NoError(t, ggml.Write(d.Labels(), labels))

	c := ggml.NewContext()
	defer c.Close()
	x, y := c.NewTensor(ggml.I32, 1, 6), c.NewTensor(ggml.I64, 6)
	m := need.Value(c.Allocate(r.backend.BufferType()))(t)
	defer m.Close()
	read := func() (all []int32) {
		for i := range int64(2) {
			require.NoError(t, d.CopyBatch(x, y, i))
			xs := need.Value(ggml.Read[int32](x))(t)
			ys := need.Value(ggml.Read[int64](y))(t)
			rawX, rawY := make([]byte, 6*4), make([]byte, 6*8)
			require.NoError(t, d.ReadBatch(rawX, rawY, i))
			for k := range xs {
				require.EqualValues(t, 100+xs[k], ys[k], "labels stay with their samples")
				require.EqualValues(t, xs[k], rawX[4*k])
				require.EqualValues(t, ys[k], rawY[8*k])
			}
			all = append(all, xs...)
		}
		return all
	}
	require.Equal(t, data, read())

	moved, first := false, false
	for range 20 {
		require.NoError(t, d.Shuffle(o, 6))
		got := read()
		require.Equal(t, data[6:], got[6:], "the rest stays")
		first = first || !slices.Equal(got, data)
		require.NoError(t, d.Shuffle(o, -1))
		got = read()
		for i := 0; i < len(got); i += 3 {
			require.Equal(t, []int32{got[i], got[i] + 1, got[i] + 2}, got[i:i+3], "a shard stays together")
		}
		sorted := slices.Sorted(slices.Values(got))
		require.Equal(t, data, sorted)
		moved = moved || !slices.Equal(got, data)
		// Shuffling with another optimizer may restore the original order.
		if !slices.Equal(got, data) {
			break
		}
	}
	require.True(t, moved || first)
	require.NoError(t, d.Shuffle(o, 0))

	require.ErrorContains(t, d.Shuffle(o, 4), "in shards of 3")
	require.ErrorContains(t, d.Shuffle(o, 15), "there are 12")
	require.ErrorContains(t, d.Shuffle(nil, 3), "nil")
	require.ErrorContains(t, d.CopyBatch(x, y, 2), "out of range")
	require.ErrorContains(t, d.CopyBatch(x, y, -1), "out of range")
	require.ErrorContains(t, d.CopyBatch(x, y, math.MaxInt64), "out of range")
	require.ErrorContains(t, d.CopyBatch(x, nil, 0), "has labels")
	require.ErrorContains(t, d.CopyBatch(nil, y, 0), "nil")
	require.ErrorContains(t, d.CopyBatch(y, x, 0), "have type i32")
	require.ErrorContains(t, d.CopyBatch(r.x, y, 0), "have type i32")
	require.ErrorContains(t, d.CopyBatch(c.View(x, []int64{1, 4}, []int64{4}, 0), y, 0), "whole shards")
	require.ErrorIs(t, d.CopyBatch(c.NewTensor(ggml.I32, 3), c.NewTensor(ggml.I64, 3), 0), ggml.ErrNotAllocated)
	require.ErrorContains(t, d.CopyBatch(c.NewTensor(ggml.I32, 3), y, 0), "hold 3 labels")
	require.ErrorContains(t, d.CopyBatch(c.NewTensor(ggml.I32, 15), c.NewTensor(ggml.I64, 15), 0), "memory")
	require.ErrorContains(t, d.ReadBatch(make([]byte, 5), nil, 0), "whole shards")
	require.ErrorContains(t, d.ReadBatch(nil, nil, 0), "whole shards")
	require.ErrorContains(t, d.ReadBatch(make([]byte, 12), nil, 0), "the labels take 24")
	require.ErrorContains(t, d.ReadBatch(make([]byte, 12), make([]byte, 24), 4), "out of range")
	require.ErrorContains(t, d.ReadBatch(make([]byte, 60), make([]byte, 120), 0), "has only 12")

	d.Close()
	require.ErrorIs(t, d.Shuffle(o, -1), ggml.ErrClosed)
	require.ErrorIs(t, d.CopyBatch(x, y, 0), ggml.ErrClosed)
	require.ErrorIs(t, d.ReadBatch(make([]byte, 12), make([]byte, 24), 0), ggml.ErrClosed)
	_, err := ggml.Read[int32](d.Data())
	require.ErrorIs(t, err, ggml.ErrClosed)
}

func TestDatasetErrors(t *testing.T) {
	for name, k := range map[string]struct {
		options ggml.DatasetOptions
		want    string
	}{
		"type":           {ggml.DatasetOptions{Samples: 1, SampleSize: 1, DataType: 4}, "there is no type 4"},
		"label type":     {ggml.DatasetOptions{Samples: 1, SampleSize: 1, LabelSize: 1, LabelType: 33}, "there is no type 33"},
		"sample":         {ggml.DatasetOptions{Samples: 1}, "a sample has 0 elements"},
		"block":          {ggml.DatasetOptions{Samples: 1, SampleSize: 33, DataType: ggml.Q8_0}, "multiple of 32"},
		"label":          {ggml.DatasetOptions{Samples: 1, SampleSize: 1, LabelSize: -1}, "a label has -1 elements"},
		"no samples":     {ggml.DatasetOptions{SampleSize: 1}, "0 samples"},
		"negative shard": {ggml.DatasetOptions{Samples: 1, SampleSize: 1, Shard: -1}, "shards of -1 samples"},
		"uneven shards":  {ggml.DatasetOptions{Samples: 10, SampleSize: 1, Shard: 3}, "shards of 3 samples do not divide 10"},
		"too large":      {ggml.DatasetOptions{Samples: 1 << 40, SampleSize: 1 << 40}, "too large"},
		"too large back": {ggml.DatasetOptions{Samples: math.MaxInt64, SampleSize: math.MaxInt64, Shard: math.MaxInt64}, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := ggml.NewDataset(k.options)
			require.ErrorContains(t, err, k.want)
			require.Nil(t, d)
		})
	}
	for _, o := range []ggml.DatasetOptions{
		{Samples: 1, SampleSize: 1 << 50},
		{Samples: 1 << 40, SampleSize: 32, DataType: ggml.Q4_0}, // its order alone takes 8 TB
	} {
		d, err := ggml.NewDataset(o)
		require.ErrorIs(t, err, ggml.ErrOutOfMemory)
		require.ErrorContains(t, err, "but the machine has only")
		require.Nil(t, d)
	}
}

func TestDatasetOf(t *testing.T) {
	d := need.Value(ggml.NewDatasetOf([][]float32{{1, 2}, {3, 4}, {5, 6}}, [][]float32{{7}, {8}, {9}}))(t)
	defer d.Close()
	require.EqualValues(t, 3, d.NumSamples())
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, optest.Values(t, d.Data()))
	require.Equal(t, []float32{7, 8, 9}, optest.Values(t, d.Labels()))

	bare := need.Value(ggml.NewDatasetOf([][]float32{{1, 2}}, nil))(t)
	defer bare.Close()
	require.Nil(t, bare.Labels())
}

func TestDatasetOfErrors(t *testing.T) {
	for want, rows := range map[string][2][][]float32{
		"there are no samples":                         {},
		"there are 2 samples and 1 labels":             {{{1}, {2}}, {{1}}},
		"there are 1 samples and 0 labels":             {{{1}}, {}},
		"sample 1 has 2 elements, the first has 1":     {{{1}, {2, 3}}, nil},
		"sample 0 has 0 elements, the first has 0":     {{{}}, nil},
		"label 1 has 0 elements, the first has 1; all": {{{1}, {2}}, {{1}, {}}},
	} {
		_, err := ggml.NewDatasetOf(rows[0], rows[1])
		require.ErrorContains(t, err, want)
	}
}
