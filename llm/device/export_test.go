package device

import (
	"slices"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// AddOpSet gives a device its own op set during a test: rows before the rows of stock's table.
func AddOpSet(t *testing.T, of *ggml.Device, rows ...nn.Row) {
	stock := *opSets[len(opSets)-1]
	third := stock
	third.name, third.copies, third.narrow = "third", false, false
	third.takes = func(d *ggml.Device) bool { return *d == *of }
	third.lowering = func(e *Engine, u Use, i int) (*nn.Lowering, error) {
		table, err := stock.lowering(e, u, i)
		if err != nil {
			return nil, err
		}
		table = table.With(nn.FrozenCopies.By(func(*nn.Tape, nn.Matrix) nn.Copies { return nil })).With(rows...)
		table.Name = "third"
		return table, nil
	}
	was := slices.Clone(opSets)
	opSets = append([]*opSet{&third}, opSets...)
	t.Cleanup(func() { opSets = was })
}
