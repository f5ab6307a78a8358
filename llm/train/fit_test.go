package train

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lossgraph"
)

// wayOf describes a fit.
func wayOf(f *Fit) string {
	return fmt.Sprintf("%d×%d of %d, %v", f.Batch, f.Accumulate, f.Length, f.Checkpointing)
}

// If it fits, a run keeps all results instead of recomputing them, uses the largest batch that divides
// a step, and shortens samples only if a single one does not fit.
func TestFit(t *testing.T) {
	need.Time(t, "measures many plans")
	for _, packed := range []bool{false, true} {
		p := planOf(t, "llama", plenty)
		p.Options.Batch, p.Options.Accumulate, p.Options.Schedule.Steps = 4, 3, 1
		p.Data = data.New(48, fewTokens(24, 48))
		if packed {
			p.Data = need.Value(data.New(48, fewTokens(24, 48)).Packed(0))(t)
		}
		need := func(c Checkpointing, batch, length int) int64 {
			q := p
			if length < p.Data.Length {
				q = p.withLength(length)
			}
			q.Options.Batch, q.Options.Accumulate = batch, 12/batch
			e := need.Value(q.estimate(c))(t)
			return e.Total().Total()
		}
		for _, c := range []struct {
			available int64
			o         FitOptions
			want      string
		}{
			{plenty, FitOptions{}, "12×1 of 48, off"},
			{plenty, FitOptions{MostBatch: 5}, "4×3 of 48, off"},
			{need(CheckpointingOff, 12, 48), FitOptions{}, "12×1 of 48, off"},
			{need(CheckpointingOff, 12, 48) - 1, FitOptions{}, "6×2 of 48, off"},
			{need(CheckpointingOff, 4, 48) - 1, FitOptions{}, "3×4 of 48, off"},
			{need(CheckpointingOff, 1, 48), FitOptions{}, "1×12 of 48, off"},
			{need(CheckpointingOn, 1, 48), FitOptions{}, "1×12 of 48, on"},
			{need(CheckpointingOn, 1, 48) - 1, FitOptions{}, "1×12 of 40, on"},
			{need(CheckpointingOn, 1, 8), FitOptions{}, "1×12 of 8, on"},
		} {
			p.Available = layout.Sizes{c.available}
			f, err := p.Fit(c.o)
			require.NoError(t, err, c.want)
			require.Equal(t, c.want, wayOf(f), "packed %v, of %d", packed, c.available)
			require.True(t, f.Memory.Fits(p.Available))
			require.Equal(t, 12, f.Batch*f.Accumulate)
		}

		p.Available = layout.Sizes{need(CheckpointingOn, 1, 8) - 1}
		_, err := p.Fit(FitOptions{})
		var none *FitError
		require.ErrorAs(t, err, &none)
		require.Equal(t, "1×12 of 8, on", wayOf(&none.Fit))
		require.Equal(t, p.Available[0]+1, none.Need)
		require.Equal(t, fmt.Sprintf("the run takes at least %s of CPU, which has only %s", layout.Bytes(none.Need), layout.Bytes(none.Available)), err.Error())
		_, err = p.Fit(FitOptions{KeepLength: true})
		require.ErrorAs(t, err, &none)
		require.Equal(t, need(CheckpointingOn, 1, 48), none.Need)

		p.Options.Checkpointing = CheckpointingOff
		_, err = p.Fit(FitOptions{KeepLength: true})
		require.ErrorAs(t, err, &none)
		require.Equal(t, need(CheckpointingOff, 1, 48), none.Need)
	}
	_, err := Plan{}.Fit(FitOptions{})
	require.Error(t, err)
	_, err = Plan{Model: planOf(t, "llama", 0).Model}.Fit(FitOptions{})
	require.Error(t, err)
}

// A run takes the memory of its fit, and the program's memory counts as the CPU's.
func TestFitWithProgram(t *testing.T) {
	p := planOf(t, "gemma3", plenty)
	p.Options.Schedule.Steps = 1
	e := need.Value(p.estimate(CheckpointingOff))(t)
	p.Options.Accumulate = 1
	p.Available = e.Total()
	f := need.Value(p.Fit(FitOptions{}))(t)
	require.Equal(t, "2×1 of 24, off", wayOf(f))
	p.Options.Batch, p.Options.Accumulate = f.Batch, f.Accumulate
	require.InEpsilon(t, p.taken(t, f.Checkpointing).Total(), f.Memory.Total().Total(), 0.05)
	p.Program = 1000
	f = need.Value(p.Fit(FitOptions{}))(t)
	require.Equal(t, "1×2 of 24, off", wayOf(f))
	require.Equal(t, layout.Sizes{1000}, f.Memory.Program)
}

// Fit requests a layout for each way, and prefers one with all layers on devices.
func TestFitOverDevices(t *testing.T) {
	p := planOf(t, "llama", plenty)
	p.Options.Batch, p.Options.Accumulate, p.Options.Schedule.Steps = 4, 1, 1
	var asked []string
	lay := func(whole func(*Plan) bool) func(*Plan) (bool, error) {
		return func(p *Plan) (bool, error) {
			asked = append(asked, fmt.Sprintf("%d %v", p.Options.Batch, p.Options.Checkpointing))
			return whole(p), nil
		}
	}
	f := need.Value(p.Fit(FitOptions{Lay: lay(func(p *Plan) bool { return p.Options.Batch <= 2 && p.Options.Checkpointing == CheckpointingOn })}))(t)
	require.Equal(t, "2×2 of 24, on", wayOf(f))
	require.Contains(t, asked, "1 off")
	f = need.Value(p.Fit(FitOptions{Lay: lay(func(*Plan) bool { return false })}))(t)
	require.Equal(t, "1×4 of 24, on", wayOf(f), "what takes least, where some layers stay on the CPU in any case")
	f = need.Value(p.Fit(FitOptions{Lay: func(p *Plan) (bool, error) {
		if p.Data.Length > 8 {
			return false, &layout.ShortageError{}
		}
		return true, nil
	}}))(t)
	require.Equal(t, "1×4 of 8, on", wayOf(f))
	broken := &lossgraph.BatchSizeError{Batch: 1}
	_, err := p.Fit(FitOptions{Lay: func(*Plan) (bool, error) { return false, broken }})
	require.ErrorIs(t, err, broken)
	_, err = p.Fit(FitOptions{Lay: func(*Plan) (bool, error) { return false, fmt.Errorf("no such device") }})
	require.EqualError(t, err, "no such device")
}
