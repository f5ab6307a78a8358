package ggml_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rebuild"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A claim is an op of ggml's own program test-backend-ops, with the CPU plugin's answer whether it
// supports it; see scripts/opsupport.
type claim struct {
	line     string
	yes      bool
	op       string
	inPlace  bool // the result is a view
	result   claimTensor
	params   ggml.OpParams
	operands []*claimTensor // nil if absent
}

type claimTensor struct {
	typ     ggml.Type
	ne      [4]int64
	strides []int64 // in bytes, of four dimensions; nil if contiguous; the file has them in blocks
}

func readClaims(t *testing.T) []claim {
	file := need.Value(os.Open("testdata/op-claims.txt"))(t)
	defer file.Close()
	types := map[string]ggml.Type{}
	for _, typ := range ggml.Types() {
		types[typ.String()] = typ
	}
	var claims []claim
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line, of, alike := strings.Cut(lines.Text(), " | ")
		switch {
		case strings.HasPrefix(line, "#"):
		case alike: // one claim for each of the types
			for typ := range strings.FieldsSeq(of) {
				claims = append(claims, parseClaim(t, strings.ReplaceAll(line, " T:", " "+typ+":"), types))
			}
		default:
			claims = append(claims, parseClaim(t, line, types))
		}
	}
	return claims
}

func parseClaim(t *testing.T, line string, types map[string]ggml.Type) claim {
	numbers := func(s string) (list []int64) {
		for word := range strings.SplitSeq(s, ",") {
			n, err := strconv.ParseInt(word, 10, 64)
			require.NoError(t, err, line)
			list = append(list, n)
		}
		return list
	}
	tensor := func(s string) *claimTensor {
		if s == "-" {
			return nil
		}
		parts := strings.Split(s, ":")
		require.Contains(t, types, parts[0])
		x := &claimTensor{typ: types[parts[0]], ne: [4]int64{1, 1, 1, 1}}
		copy(x.ne[:], numbers(parts[1]))
		if len(parts) > 2 {
			for _, blocks := range numbers(parts[2]) {
				x.strides = append(x.strides, blocks*x.typ.BlockBytes())
			}
		}
		return x
	}
	words := strings.Fields(line)
	k := claim{line: line, yes: words[0] == "yes", result: *tensor(words[2])}
	k.op, k.inPlace = strings.CutSuffix(words[1], "*")
	if list := strings.Trim(words[3], "[]"); list != "" {
		for i, n := range numbers(list) {
			k.params[i] = int32(n)
		}
	}
	for _, word := range words[4:] {
		k.operands = append(k.operands, tensor(word))
	}
	return k
}

// place makes a leaf, or a view of one, of the type, shape and strides.
func (x *claimTensor) place(c *ctx) *ggml.Tensor {
	if x.strides == nil {
		return c.NewTensor(x.typ, x.ne[:]...)
	}
	// A view has adjacent elements in a row, and the other dimensions in any order.
	order := []int{0, 1, 2, 3}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x.strides[a], x.strides[b]) })
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x.rank(a), x.rank(b)) })
	size := x.typ.BlockBytes()
	var ne, strides [4]int64
	var axes [4]int
	for to, from := range order {
		ne[to], strides[to], axes[to] = x.ne[from], x.strides[from], from
		size += (ne[to] - 1) * strides[to]
	}
	blocks := (size + x.typ.RowSize(ne[0]) + x.typ.BlockBytes() - 1) / x.typ.BlockBytes()
	whole := c.NewTensor(x.typ, blocks*x.typ.BlockSize())
	return c.Permute(c.View(whole, ne[:], strides[1:], 0), axes)
}

// rank is 0 for the dimension of adjacent elements in a row, else 1.
func (x *claimTensor) rank(dim int) int {
	row := slices.IndexFunc([]int{0, 1, 2, 3}, func(i int) bool {
		return x.strides[i] == x.typ.BlockBytes() && (x.ne[i] > 1 || x.strides[0] == x.typ.BlockBytes())
	})
	if dim == row {
		return 0
	}
	return 1
}

// describes reports whether a tensor has the type, shape and strides; strides of
// dimensions of size 1 do not matter.
func (x *claimTensor) describes(y *ggml.Tensor) bool {
	if y.Type() != x.typ {
		return false
	}
	for i, n := range x.ne {
		if y.Dim(i) != n || x.strides != nil && n > 1 && y.Stride(i) != x.strides[i] {
			return false
		}
	}
	return true
}

// build makes the op in a context, and its operands; the op is nil if the binding cannot express
// it.
func (k *claim) build(t *testing.T, c *ctx) (y *ggml.Tensor, x []*ggml.Tensor) {
	for _, o := range k.operands {
		if o == nil {
			x = append(x, nil)
		} else {
			x = append(x, o.place(c))
		}
	}
	if strings.HasPrefix(k.op, "OPT_STEP") {
		x[0].SetParam()
	}
	require.True(t, rebuild.Knows(k.code()), "test-backend-ops has an op that the test does not know: %s", k.op)
	result := ggml.Layout{Type: k.result.typ, Shape: k.result.ne}
	y = rebuild.Build(c, rebuild.Node{Op: k.code(), Params: k.params, Result: result, InPlace: k.inPlace, Sources: x})
	if c.Err() == nil && y.OpParams() != k.params {
		return nil, x
	}
	return y, x
}

// code returns the name of the op's code: activations are ops of two codes, told apart by their
// first parameter.
func (k *claim) code() string {
	switch name := strings.ToLower(k.op); name {
	case ggml.Unary(k.params[0]).String():
		return "unary"
	case ggml.GLU(k.params[0]).String():
		return "glu"
	default:
		return name
	}
}

// requireSame requires that an op matches the claim.
func (k *claim) requireSame(t *testing.T, y *ggml.Tensor, x []*ggml.Tensor) {
	require.Equal(t, strings.ToLower(k.op), y.Op(), k.line)
	require.Equal(t, k.inPlace, y.IsView(), k.line)
	require.True(t, k.result.describes(y), "%s: the result is %v", k.line, y)
	sources := y.Sources()
	for i, o := range k.operands {
		if o == nil {
			continue
		}
		require.True(t, o.describes(x[i]), "%s: an operand is %v", k.line, x[i])
		require.NotEmpty(t, sources, k.line)
		padded := sources[0].Op() == "pad" // as the binding does with the factors of a RoPE
		require.True(t, padded || sources[0].Is(x[i]), "%s: an operand is %v", k.line, sources[0])
		sources = sources[1:]
	}
	require.Empty(t, sources, k.line)
}

// An exclusion describes ops that the plugin claims and the binding does not build.
type exclusion struct{ ops, err, why string }

// exclusions are for the claims in testdata, with the reason.
var exclusions = []exclusion{
	{"SET_ROWS|CONV_3D|CONCAT", "ne[0-3] is 0; it must be at least 1", "there are no empty tensors: see TestNoEmptyTensors"},
	{"(GE|RE|SWI)GLU.*", "ne0 is 5; it must be even", "ggml leaves out the last element of an odd row"},
	{"ADD", "a has type f8_e4m3", "a type of weights, which the op of no other device takes; Cast makes a F32"},
	{"SUM", "must be contiguous", "the kernel adds up wrong elements of a transposed tensor"},
	{"POOL_1D|POOL_2D", "padding less than the size", "windows of padding alone have no mean and no largest element"},
	{"GET_ROWS_BACK", "a row for each index", "ggml does not read the rows beyond the indices"},
	{"IM2COL_3D", "must be multiples of the 3 channels", "the result depends on the kernel's other sizes only, but this is no convolution"},
	{"MUL_MAT", "b must be f32, or have the type of a", "the other way round is a product in F16 or BF16; Cast makes b F32"},
	{"IM2COL_3D|CONV_2D|CONV_2D_DW|GATED_DELTA_NET", "must be contiguous; call Cont", "the layout of an operand; Cont makes the one that is taken"},
}

// exclusionsOfAll are additional exclusions, for cases of "scripts/opsupport --all" that are not in
// testdata.
var exclusionsOfAll = []exclusion{
	{"CONV_2D", "a kernel of .* does not fit", "a result without elements; see the first of exclusions"},
	{"SSM_SCAN|GATED_DELTA_NET", "no such op", "the states that a scan returns are the last, or those after each token"},
}

var errNotInAPI = errors.New("the binding has no such op")

// Each op that the plugin claims is built, with the claimed types, shapes and strides, and
// supported by the device, unless it is in exclusions. Other ops are an error when built, or before
// they are computed.
func TestClaims(t *testing.T) {
	used := make([]int, len(exclusions))
	built, rejected, late := 0, 0, 0
	for _, k := range readClaims(t) {
		c := ggml.NewContext()
		y, x := k.build(t, c)
		err := c.Err()
		if y == nil && err == nil {
			err = errNotInAPI
		}
		switch {
		case err == nil:
			k.requireSame(t, y, x)
			assert.Equal(t, k.yes, optest.CPU(t).SupportsOp(y), k.line)
			if built++; !k.yes {
				requireUnsupported(t, c, y)
				late++
			}
		case k.yes:
			i := slices.IndexFunc(exclusions, func(u exclusion) bool { return u.matches(&k, err) })
			if i >= 0 {
				used[i]++
			}
			elsewhere := slices.ContainsFunc(exclusionsOfAll, func(u exclusion) bool { return u.matches(&k, err) })
			assert.True(t, i >= 0 || elsewhere, "the plugin claims %s, which the binding does not build: %v", k.line, err)
		default:
			rejected++
		}
		c.Close()
	}
	require.Greater(t, built, 1700)
	require.Greater(t, rejected, 80)
	require.Greater(t, late, 80)
	require.NotContains(t, used, 0, "a reason is not needed any more: %v", used)
}

// requireUnsupported requires an error instead of a computation.
func requireUnsupported(t *testing.T, c *ctx, y *ggml.Tensor) {
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()
	graph := c.NewGraph(y)
	buffers := need.Value(c.Allocate(backend.BufferType()))(t)
	defer buffers.Close()
	require.NoError(t, buffers.Clear(0)) // row indices in range
	require.ErrorContains(t, backend.Compute(context.Background(), graph), "support")
}

// matches reports whether the exclusion applies to the claim and the error of its op.
func (u exclusion) matches(k *claim, failure error) bool {
	op := regexp.MustCompile("^(" + u.ops + `)\*?$`)
	return op.MatchString(k.op) && regexp.MustCompile(u.err).MatchString(failure.Error())
}
