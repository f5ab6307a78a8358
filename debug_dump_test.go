package ggml_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func ExampleTensor_Dump() {
	c := ggml.NewContext()
	defer c.Close()
	m := c.NewTensor(ggml.F32, 20, 10).SetName("m")
	transposed := c.Transpose(m).SetName("transposed")
	buffers, err := c.Allocate(ggml.CPUBufferType())
	check(err)
	defer buffers.Close()
	values := make([]float32, 200)
	for i := range values {
		values[i] = float32(i) / 2
	}
	check(ggml.Write(m, values))

	fmt.Printf("%v\n", m)
	check(m.Dump(os.Stdout, ggml.DumpOptions{Threshold: 100, Edge: 2}))
	check(transposed.Dump(os.Stdout, ggml.DumpOptions{Threshold: 100, Edge: 1}))
	// Output:
	// m f32[20, 10]
	// m f32[20, 10]
	// [[   0  0.5 ...    9  9.5]
	//  [  10 10.5 ...   19 19.5]
	//  ...
	//  [  80 80.5 ...   89 89.5]
	//  [  90 90.5 ...   99 99.5]]
	// transposed f32[10, 20], a view of m f32[20, 10] at byte 0, strides [80, 4]
	// [[   0 ...   90]
	//  ...
	//  [ 9.5 ... 99.5]]
}

// filled makes an allocated tensor, with data unless values is nil.
func filled[T ggml.Element](t *testing.T, typ ggml.Type, values []T, shape ...int64) *ggml.Tensor {
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	x := c.NewTensor(typ, shape...).SetName("x")
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	t.Cleanup(func() { buffers.Close() })
	if values != nil {
		require.NoError(t, ggml.Write(x, values))
	}
	return x
}

func TestFormatVerbs(t *testing.T) {
	x := filled(t, ggml.I32, []int32{1, -20, 300}, 3)
	require.Equal(t, "x i32[3]", fmt.Sprint(x))
	require.Equal(t, "x i32[3]", fmt.Sprintf("%s", x))
	require.Equal(t, "   x i32[3]|x i32[3]   ", fmt.Sprintf("%11v|%-11v", x, x))
	require.Equal(t, `"x i32[3]"`, fmt.Sprintf("%q", x))
	require.Equal(t, "x i32[3]\n[  1 -20 300]", fmt.Sprintf("%+v", x))
	require.Equal(t, "[x i32[3]]", fmt.Sprint([]*ggml.Tensor{x}))

	var none *ggml.Tensor
	require.Equal(t, "nil", fmt.Sprint(none))
	require.Contains(t, fmt.Sprintf("%+v", none), "nil (ggml: Tensor.Format(nil): the tensor is nil")
	failed := x.Context().Add(x, nil)
	require.Equal(t, "(failed op)", fmt.Sprint(failed))
	require.Contains(t, fmt.Sprintf("%+v", failed), "operand 1 is nil")
}

func TestDumpLayouts(t *testing.T) {
	values := make([]float32, 24)
	for i := range values {
		values[i] = float32(i)
	}
	x := filled(t, ggml.F32, values, 2, 3, 2, 2)
	require.Equal(t, strings.TrimSpace(`
x f32[2, 3, 2, 2]
[[[[ 0  1]
   [ 2  3]
   [ 4  5]]

  [[ 6  7]
   [ 8  9]
   [10 11]]]


 [[[12 13]
   [14 15]
   [16 17]]

  [[18 19]
   [20 21]
   [22 23]]]]`), fmt.Sprintf("%+v", x))

	special := filled(t, ggml.F32, []float32{float32(math.NaN()), float32(math.Inf(-1)), 1.23456e-9}, 3)
	require.Equal(t, "x f32[3]\n[      NaN      -Inf 1.235e-09]", fmt.Sprintf("%+v", special))

	var out strings.Builder
	require.NoError(t, filled(t, ggml.F64, []float64{math.Pi}, 1).Dump(&out, ggml.DumpOptions{Precision: 12}))
	require.Equal(t, "x f64[1]\n[3.14159265359]\n", out.String())
}

// Dumps of all types show the values of Float32s; integers are exact.
func TestDumpTypes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, typ := range ggml.Types() {
		if !typ.CanDequantize() {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			x := filled[float32](t, typ, nil, 2*typ.BlockSize(), 2)
			raw := make([]byte, x.NumBytes())
			for i := range raw {
				raw[i] = byte(random.Uint32())
			}
			require.NoError(t, optest.Err(x.WriteAt(raw, 0)))
			requireDump(t, x, floatsOf(t, x))
		})
	}
	requireDump(t, filled(t, ggml.I8, []int8{-128, 127}, 2), []string{"-128", "127"})
	requireDump(t, filled(t, ggml.I16, []int16{-32768, 1}, 2), []string{"-32768", "1"})
	requireDump(t, filled(t, ggml.I64, []int64{math.MinInt64, 7}, 2), []string{"-9223372036854775808", "7"})
}

// Types used only by kernels: scale 0.5 times the signed bytes.
func TestDumpKernelTypes(t *testing.T) {
	for typ, header := range map[ggml.Type][]byte{
		ggml.Q8_1: {0x00, 0x38, 0, 0},
		ggml.Q8_K: {0, 0, 0, 0x3f},
	} {
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(typ, typ.BlockSize())
		buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
		defer buffers.Close()
		raw := make([]byte, typ.BlockBytes())
		copy(raw, header)
		var want []string
		for i := range typ.BlockSize() {
			raw[4+i] = byte(i - 16)
			want = append(want, fmt.Sprint(0.5*float64(int8(i-16))))
		}
		require.NoError(t, optest.Err(x.WriteAt(raw, 0)))
		requireDump(t, x, want)
	}
}

func floatsOf(t *testing.T, x *ggml.Tensor) []string {
	values := need.Value(x.Float32s())(t)
	var texts []string
	for _, v := range values {
		texts = append(texts, fmt.Sprintf("%.4g", v))
	}
	return texts
}

// requireDump compares all values of a dump without omissions.
func requireDump(t *testing.T, x *ggml.Tensor, want []string) {
	var out strings.Builder
	require.NoError(t, x.Dump(&out, ggml.DumpOptions{Threshold: 1 << 20}))
	require.Equal(t, want, dumpedValues(out.String()))
}

func dumpedValues(dump string) []string {
	_, values, _ := strings.Cut(dump, "\n")
	return strings.Fields(strings.NewReplacer("[", " ", "]", " ").Replace(values))
}

// A dump of any view shows the edge elements that Read returns.
func TestDumpOfViews(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := ggml.NewContext()
		defer c.Close()
		size := rapid.Int64Range(1, 5)
		ne := [4]int64{size.Draw(rt, "ne0"), size.Draw(rt, "ne1"), size.Draw(rt, "ne2"), size.Draw(rt, "ne3")}
		x := c.NewTensor(ggml.I32, ne[:]...)
		axes := rapid.Permutation([]int{0, 1, 2, 3}).Draw(rt, "axes")
		view := c.Permute(x, [4]int(axes))
		buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(rt)
		defer buffers.Close()
		values := make([]int32, x.NumElements())
		for i := range values {
			values[i] = int32(i)
		}
		require.NoError(rt, ggml.Write(x, values))
		all := need.Value(ggml.Read[int32](view))(rt)

		edge := rapid.IntRange(1, 3).Draw(rt, "edge")
		var out strings.Builder
		require.NoError(rt, view.Dump(&out, ggml.DumpOptions{Threshold: 1, Edge: edge}))
		var want []string
		for i, v := range all {
			if atEdge(int64(i), view, int64(edge)) || len(all) == 1 {
				want = append(want, fmt.Sprint(v))
			}
		}
		var got []string
		for _, v := range dumpedValues(out.String()) {
			if v != "..." {
				got = append(got, v)
			}
		}
		require.Equal(rt, want, got)
	})
}

// atEdge reports whether element i is near an end of each dimension.
func atEdge(i int64, x *ggml.Tensor, edge int64) bool {
	for d := range ggml.MaxDims {
		at, n := i%x.Dim(d), x.Dim(d)
		if i /= n; at >= edge && at < n-edge {
			return false
		}
	}
	return true
}

func TestDumpWithoutData(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2)
	var out strings.Builder
	require.ErrorIs(t, x.Dump(&out, ggml.DumpOptions{}), ggml.ErrNotAllocated)
	require.Contains(t, fmt.Sprintf("%+v", x), "leaf f32[2] (ggml: Tensor.Format(leaf f32[2]): the tensor has no memory")
	c.Close()
	require.ErrorIs(t, x.Dump(&out, ggml.DumpOptions{}), ggml.ErrClosed)
	require.Empty(t, out.String())
}
