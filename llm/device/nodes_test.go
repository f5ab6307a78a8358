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

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/oracle"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// A nodeKind is an op with the types of its operands and its result.
type nodeKind struct{ op, types string }

// A nodeRow is what was seen of a kind.
type nodeRow struct {
	nodes  int
	shapes map[string]bool
	worst  float64 // distance of an element from float64, as a share of the largest
	at     string
}

// A nodeTable holds each node that schedulers compute against its formula, of operands as they were computed.
type nodeTable struct {
	mu   sync.Mutex
	rows map[nodeKind]*nodeRow
	name string // of what is computed
}

// newNodeTable looks at all that is computed until the test ends.
func newNodeTable(t *testing.T) *nodeTable {
	n := &nodeTable{rows: map[nodeKind]*nodeRow{}}
	testhook.Allocating = func(graph any) {
		for x := range graph.(*ggml.Graph).Inputs() {
			x.SetOutput() // to be read behind the allocation
		}
	}
	testhook.Scheduled = func(scheduler, graph any) {
		s, g := scheduler.(*ggml.Scheduler), graph.(*ggml.Graph)
		p, err := oracle.Compile(g, nil)
		require.NoError(t, err)
		p.RoundGELU = true
		replay := p.Replay()
		require.NoError(t, s.SetEvalCallback(nil, func(x *ggml.Tensor) error { return n.see(replay, x) }))
	}
	t.Cleanup(func() { testhook.Allocating, testhook.Scheduled = nil, nil })
	return n
}

func (n *nodeTable) see(replay *oracle.Replay, x *ggml.Tensor) error {
	got, err := numbers(x)
	if err != nil {
		return err
	}
	want, ok := replay.Next(x, got)
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
	if e := distance(got, want.Data); e > row.worst {
		row.worst, row.at = e, fmt.Sprintf("%s: %s", n.name, strings.Join(shapes, " "))
	}
	return nil
}

// numbers are the values of a tensor.
func numbers(x *ggml.Tensor) ([]float64, error) {
	if x.Type() == ggml.I32 {
		whole, err := ggml.Read[int32](x)
		return refmath.From(whole).Data, err
	}
	values, err := x.Float32s()
	return refmath.From(values).Data, err
}

// distance is the largest from what is wanted, as a share of the largest that is; infinities have to be the same.
func distance(got, want []float64) float64 {
	largest, worst := 0.0, 0.0
	for i, w := range want {
		if !math.IsInf(w, 0) {
			largest = max(largest, math.Abs(w))
		}
		switch d := math.Abs(got[i] - w); {
		case got[i] == w:
		case math.IsNaN(d):
			return math.Inf(1)
		default:
			worst = max(worst, d)
		}
	}
	if worst == 0 {
		return 0
	}
	return worst / largest
}

// String is the table.
func (n *nodeTable) String() string {
	var b strings.Builder
	kinds := slices.SortedFunc(maps.Keys(n.rows), func(x, y nodeKind) int { return cmp.Or(cmp.Compare(x.op, y.op), cmp.Compare(x.types, y.types)) })
	for _, k := range kinds {
		r := n.rows[k]
		fmt.Fprintf(&b, "%-16s %-32s %6d nodes of %3d shapes: %.1e (%s)\n", k.op, k.types, r.nodes, len(r.shapes), r.worst, r.at)
	}
	return b.String()
}

// Each op that training and sessions are made of, in all shapes and types that models have, is on a device what it is in
// float64.
func testNodes(t *testing.T, d *ggml.Device) {
	n := newNodeTable(t)
	for _, name := range llmtest.DistinctArchitectures() {
		for _, typ := range []ggml.Type{ggml.F32} {
			n.name = fmt.Sprint(name, " ", typ)
			t.Run(n.name, func(t *testing.T) {
				computesAll(t, n.name, loadOn(t, llmtest.ArchModel(t, name, typ), device.On(d)), device.On(d))
			})
		}
	}
	t.Logf("\n%v", n)
}

// computesAll takes a step of training, and makes logits.
func computesAll(t *testing.T, name string, m *model.Model, l device.Layout) {
	e := newEngine(t, device.Options{Layout: l})
	tr := newTrainer(t, m, e, train.CheckpointingOn)
	_, err := tr.Step(t.Context())
	require.NoError(t, err)
	require.NoError(t, tr.Close())
	logits(t, m, e, trained(t, m).WithScale(1))
}

func TestNodes(t *testing.T)       { testNodes(t, remote(t)) }
func TestVulkanNodes(t *testing.T) { testNodes(t, vulkan(t)) }
