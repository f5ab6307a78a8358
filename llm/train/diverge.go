package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
)

// ErrDiverged is a loss, a gradient or a parameter that is not a finite number.
var ErrDiverged = errors.New("training diverged")

// diverged names what made a figure of the run not finite: weights that are not, or the
// learning rate.
func (t *Trainer) diverged(what string) error {
	suspects := t.frozen()
	if t.step == 0 { // nothing has changed the parameters yet
		for _, p := range t.opt.params {
			suspects = append(suspects, p.Tensor)
		}
	}
	for _, x := range suspects {
		bad, found, err := nonFinite(x)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("%w: %s: the model's weight %s holds %v; use an undamaged file of the model", ErrDiverged, what, x.Name(), bad)
		}
	}
	switch {
	case t.step > 0:
		return fmt.Errorf("%w: %s; lower the learning rate", ErrDiverged, what)
	case t.options.ComputeType != ggml.F32:
		return fmt.Errorf("%w: %s before anything was trained; use the compute type f32", ErrDiverged, what)
	}
	return fmt.Errorf("%w: %s before anything was trained: the model itself computes it", ErrDiverged, what)
}

// checkParameters demands that what is trained is finite.
func (t *Trainer) checkParameters() error {
	for _, p := range t.opt.params {
		bad, found, err := nonFinite(p.Tensor)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf("%w: after step %d %s holds %v; lower the learning rate", ErrDiverged, t.step, p.Name(), bad)
		}
	}
	return nil
}

// checkTokens is how much of a sample checkResult computes: as good as free, even where
// a step takes minutes.
const checkTokens = 32

// checkResult demands that what is going to be saved computes. No loss has been seen of
// what the last step made of the parameters: it is that of the beginning of a sample
// that the step trained on.
func (t *Trainer) checkResult(ctx context.Context) error {
	if err := t.checkParameters(); err != nil {
		return err
	}
	tokens, err := t.lastTokens()
	if tokens == nil {
		return err
	}
	e, err := t.Evaluate(ctx, data.New(checkTokens, []data.Sample{{Tokens: tokens}}))
	if err == nil && !finite(e.Loss) {
		err = t.diverged(fmt.Sprintf("after step %d the loss is %v", t.step, e.Loss))
	}
	return err
}

// lastTokens are the first of a sample that the last step has seen, nil without one, and
// where the order has been drawn anew since.
func (t *Trainer) lastTokens() ([]int32, error) {
	for back := 1; back <= min(t.perStep(), t.position-t.shuffle.first); back++ {
		row, err := t.data.Row(t.row(t.position - back))
		if err != nil {
			return nil, err
		}
		for _, s := range row {
			if s.Predicted() > 0 {
				return s.Tokens[:min(len(s.Tokens), checkTokens+1)], nil
			}
		}
	}
	return nil, nil
}

// nonFinite finds a value of a tensor that is NaN or infinite. It reads some rows at a
// time: a matrix may not fit into the memory as F32.
func nonFinite(x *ggml.Tensor) (value float32, found bool, err error) {
	typ, rowLen := x.Type(), x.Dim(0)
	if !typ.CanDequantize() {
		return 0, false, nil
	}
	const most = 1 << 18 // values
	rows := min(max(1, most/rowLen), x.NumRows())
	values, raw := make([]float32, rows*rowLen), make([]byte, typ.RowSize(rows*rowLen))
	for from := int64(0); from < x.NumRows(); from += rows {
		n := min(rows, x.NumRows()-from) * rowLen
		part := raw[:typ.RowSize(n)]
		if _, err := x.ReadAt(part, from*typ.RowSize(rowLen)); err != nil {
			return 0, false, err
		}
		if err := ggml.Dequantize(values[:n], typ, part); err != nil {
			return 0, false, err
		}
		if value, found := firstNonFinite(values[:n]); found {
			return value, true, nil
		}
	}
	return 0, false, nil
}

func firstNonFinite(values []float32) (value float32, found bool) {
	for _, v := range values {
		if v-v != 0 {
			return v, true
		}
	}
	return 0, false
}
