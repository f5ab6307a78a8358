package device_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/oracle"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A nodeKind is an op with the types of its operands and its result.
type nodeKind struct{ op, types string }

// A nodeRow is the result for a nodeKind.
type nodeRow struct {
	nodes  int
	shapes map[string]bool
	worst  float64 // largest error relative to the largest element
	at     string
}

// A nodeTable compares nodes that schedulers compute with their float64 formulas, applied to the computed operands.
// Of the nodes of a model that differ in nothing but values it compares one.
type nodeTable struct {
	mu   sync.Mutex
	rows map[nodeKind]*nodeRow
	name string          // of the model or graph
	seen map[string]bool // nodes, by name, op, parameters, types and layout
}

// newNodeTable records everything computed until the end of the test.
func newNodeTable(t *testing.T) *nodeTable {
	n := &nodeTable{rows: map[nodeKind]*nodeRow{}, seen: map[string]bool{}}
	testhook.Allocating = func(graph any) {
		for x := range graph.(*ggml.Graph).Inputs() {
			x.SetOutput() // keeps it readable after the computation
		}
	}
	testhook.Scheduled = func(scheduler, graph any) {
		s, g := scheduler.(*ggml.Scheduler), graph.(*ggml.Graph)
		p := need.Value(oracle.Compile(g, nil))(t)
		p.RoundGELU = true
		replay := p.Replay(g, n.isNew)
		require.NoError(t, s.SetEvalCallback(replay.Needs, func(x *ggml.Tensor) error { return n.see(replay, x) }))
	}
	t.Cleanup(func() { testhook.Allocating, testhook.Scheduled = nil, nil })
	return n
}

// isNew reports whether a node differs from all before it, and remembers it.
func (n *nodeTable) isNew(x *ggml.Tensor) bool {
	key := fmt.Sprint(n.name, x.Op(), x.OpParams())
	for _, s := range append(x.Sources(), x) {
		key += fmt.Sprint(" ", s.Type(), s.Shape(), s.Stride(0), s.Stride(1), s.Stride(2), s.Stride(3))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	isNew := !n.seen[key]
	n.seen[key] = true
	return isNew
}

func (n *nodeTable) see(replay *oracle.Replay, x *ggml.Tensor) error {
	got, err := numbers(x)
	if err != nil {
		return err
	}
	operands, want, ok := replay.Next(x, got)
	if !ok {
		return nil
	}
	var types, shapes []string
	for _, s := range append(x.Sources(), x) {
		types, shapes = append(types, s.Type().String()), append(shapes, fmt.Sprint(s.Shape()))
	}
	kind := nodeKind{x.Op(), strings.Join(types, " ")}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rows[kind] == nil {
		n.rows[kind] = &nodeRow{shapes: map[string]bool{}}
	}
	row := n.rows[kind]
	row.nodes++
	row.shapes[strings.Join(shapes, " ")] = true
	if x.Op() == "argsort" { // ties may be in any order
		got, want.Data = inOrder(operands[0], got), inOrder(operands[0], want.Data)
	}
	largest := largestOf(want.Data)
	switch {
	case strings.HasPrefix(x.Op(), "sum"): // may be a small sum of large terms
		largest = max(largest, largestOf(operands[0].Data))
	case x.Op() == "log": // near 1 the result is small, and Vulkan's error bound is absolute
		largest = max(largest, 1)
	}
	if e := distance(got, want.Data) / largest; e > row.worst {
		row.worst, row.at = e, fmt.Sprintf("%s: %s", n.name, strings.Join(shapes, " "))
	}
	return nil
}

// inOrder returns values of rows in the given orders, or NaN if an order is not a permutation.
func inOrder(x refmath.Tensor, order []float64) []float64 {
	values, seen, n := make([]float64, len(order)), make([]bool, len(order)), int(x.Ne[0])
	for i := range order {
		o, row := int(order[i]), i/n*n
		if values[i] = math.NaN(); o >= 0 && o < n && !seen[row+o] {
			values[i], seen[row+o] = x.Data[row+o], true
		}
	}
	return values
}

// numbers returns the values of a tensor.
func numbers(x *ggml.Tensor) ([]float64, error) {
	if x.Type() == ggml.I32 {
		whole, err := ggml.Read[int32](x)
		return refmath.From(whole).Data, err
	}
	values, err := x.Float32s()
	return refmath.From(values).Data, err
}

// largestOf returns the largest magnitude of finite values, at least the smallest positive number.
func largestOf(values []float64) float64 {
	largest := math.SmallestNonzeroFloat32
	for _, v := range values {
		if a := math.Abs(v); !math.IsInf(a, 0) {
			largest = max(largest, a)
		}
	}
	return largest
}

// distance returns the largest difference; infinities must be equal.
func distance(got, want []float64) (worst float64) {
	for i, w := range want {
		switch d := math.Abs(got[i] - w); {
		case got[i] == w:
		case math.IsNaN(d):
			return math.Inf(1)
		default:
			worst = max(worst, d)
		}
	}
	return worst
}

// A nodeBound limits the error relative to float64, as a fraction of the largest element.
type nodeBound struct{ most, products, attention float64 }

// The plain CPU plugin accumulates in F32. Vulkan rounds the operands of products with more than eight columns to F16.
var (
	cpuNodes    = nodeBound{1e-6, 2e-6, 1e-5}
	vulkanNodes = nodeBound{2e-6, 2e-3, 5e-3}
)

func (b nodeBound) of(k nodeKind) float64 {
	switch {
	case k.op == "mul_mat" || k.op == "mul_mat_id" || k.op == "out_prod":
		if strings.HasPrefix(k.types, "f32") {
			return b.products
		}
		return max(b.products, 4e-2) // operands of 8 or 16 bits: more if one is far larger than the rest of its block
	case k.op == "flash_attn_ext":
		return b.attention
	case k.op == "gelu" || k.op == "geglu":
		return 2e-3 // ggml's CPU backend uses a table with inputs of 11 bits; Vulkan computes GELU
	case k.op == "rope" || k.op == "rope_back":
		return 1e-5 // angles up to several hundred
	case strings.HasSuffix(k.types, " f16") || strings.HasSuffix(k.types, " bf16"):
		return 1. / 256
	}
	return b.most
}

// check checks all rows against a bound.
func (n *nodeTable) check(t *testing.T, b nodeBound) {
	t.Logf("\n%v", n)
	require.Greater(t, len(n.rows), 25)
	for k, row := range n.rows {
		assert.LessOrEqual(t, row.worst, b.of(k), "%s (%s): %s", k.op, k.types, row.at)
	}
}

// String formats the table.
func (n *nodeTable) String() string {
	var b strings.Builder
	kinds := slices.SortedFunc(maps.Keys(n.rows), func(x, y nodeKind) int { return cmp.Or(cmp.Compare(x.op, y.op), cmp.Compare(x.types, y.types)) })
	for _, k := range kinds {
		r := n.rows[k]
		fmt.Fprintf(&b, "%-16s %-32s %6d nodes of %3d shapes: %.1e (%s)\n", k.op, k.types, r.nodes, len(r.shapes), r.worst, r.at)
	}
	return b.String()
}

// On a device, each op of training and sessions equals its float64 formula, in all shapes and types that models use.
func testNodes(t *testing.T, d *ggml.Device, b nodeBound, names []string) {
	n := newNodeTable(t)
	types := []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_K}
	if testing.Short() {
		types = types[:1]
	}
	for _, name := range names {
		for _, typ := range types {
			if typ != ggml.F32 && name != "llama" && name != "qwen3moe" {
				continue // only products and look-ups differ
			}
			n.name = fmt.Sprint(name, " ", typ)
			t.Run(n.name, func(t *testing.T) {
				file := llmtest.ArchFile
				if typ.BlockSize() > 32 {
					file = llmtest.WideArchFile
				}
				m := need.Value(model.Load(file(t, name, typ), model.LoadOptions{Layout: layout.On(d)}))(t)
				defer m.Close()
				computesAll(t, m, layout.On(d))
			})
		}
	}
	n.check(t, b)
}

// computesAll runs a training step, if the model trains, and computes logits.
func computesAll(t *testing.T, m *model.Model, l layout.Layout) {
	e := newEngine(t, device.Options{Layout: l})
	if m.Architecture().IsCausal() {
		tr := newTrainer(t, m, e, train.CheckpointingOn)
		_, err := tr.Step(t.Context())
		require.NoError(t, err)
		require.NoError(t, tr.Close())
	}
	logits(t, m, e, trained(t, m).WithScale(1))
}

// differing are the models with the most different ops.
var differing = []string{"gemma3", "gpt-oss", "llama", "qwen3moe"}

func TestNodes(t *testing.T) {
	need.Time(t, "compares each node")
	testNodes(t, remote(t), cpuNodes, differing)
}

// Tests all architectures, or some with -short.
func TestVulkanNodes(t *testing.T) {
	names := llmtest.Architectures()
	if testing.Short() {
		names = []string{"llama"}
	}
	testNodes(t, vulkan(t), vulkanNodes, names)
}
