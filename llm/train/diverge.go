package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
)

// ErrDiverged reports that a loss, gradient or parameter is not finite.
var ErrDiverged = errors.New("training diverged")

// A DivergedError is an [ErrDiverged] with its cause and remedy.
type DivergedError struct {
	Reason string
	Remedy string // "" if unknown
	Option string // field of [Options] to change: Schedule or ComputeType; "" if none
	Saved  string // names the last good checkpoint and its step; "" if none
}

func (e *DivergedError) Error() string {
	text := ErrDiverged.Error() + ": " + e.Reason
	for _, part := range []string{e.Remedy, e.Saved} {
		if part != "" {
			text += "; " + part
		}
	}
	return text
}

func (e *DivergedError) Unwrap() error { return ErrDiverged }

// lowerRate returns the error for parameters that a step has made non-finite.
func lowerRate(reason string) error {
	return &DivergedError{Reason: reason, Remedy: "lower the learning rate", Option: "Schedule"}
}

// diverged returns the error for a non-finite value, with its cause: a damaged weight, the learning
// rate, or the compute type.
func (t *Trainer) diverged(ctx context.Context, what string, computed ggml.Type) error {
	suspects := t.frozen()
	if t.step == 0 { // parameters are still unchanged, so they may be the cause
		for _, p := range t.opt.params {
			suspects = append(suspects, p.Tensor)
		}
	}
	damaged, bad, err := t.damaged(ctx, suspects)
	servers := t.m.Layout().Servers()
	switch {
	case err != nil:
		return err
	case damaged != nil && servers != "" && !damaged.BufferType().IsHost():
		return &DivergedError{
			Reason: fmt.Sprintf("%s: the server of %s reports that the model's weight %s holds %v", what, servers, damaged.Name(), bad),
			Remedy: "train without the server, to find out whether the server or the file of the model is damaged",
		}
	case damaged != nil:
		return &DivergedError{Reason: fmt.Sprintf("%s: the model's weight %s holds %v", what, damaged.Name(), bad), Remedy: "use an undamaged file of the model"}
	case t.step > 0:
		return lowerRate(what)
	case computed != ggml.F32 && t.isFiniteInF32(ctx):
		return &DivergedError{Reason: what + " before anything was trained", Remedy: "use the compute type f32", Option: "ComputeType"}
	}
	if servers != "" {
		return &DivergedError{Reason: fmt.Sprintf("%s before anything was trained: the cause is the model itself, or the server of %s", what, servers)}
	}
	return &DivergedError{Reason: what + " before anything was trained: the cause is the model itself"}
}

// isFiniteInF32 reports whether the next step's loss is finite when evaluated, which is in F32. It
// returns true if the loss cannot be computed.
func (t *Trainer) isFiniteInF32(ctx context.Context) bool {
	rows, err := t.nextRows()
	if err != nil {
		return true
	}
	e, err := t.evaluateAlone(ctx, data.New(t.data.Length, slices.Concat(rows...)))
	return err != nil || finite(e.Loss)
}

// checkParameters checks that the parameters are finite.
func (t *Trainer) checkParameters() error {
	for _, p := range t.opt.params {
		if err := t.checkTrained(p.Name(), p.Tensor); err != nil {
			return err
		}
	}
	return nil
}

// checkMoments checks that the moments are finite. If the square of a gradient overflows, its second
// moment becomes infinite: the parameter stays finite, but no later step changes it.
func (t *Trainer) checkMoments() error {
	for i, p := range t.opt.params {
		if err := t.checkTrained("the first moment of "+p.Name(), t.opt.first[i]); err != nil {
			return err
		}
		if err := t.checkTrained("the second moment of "+p.Name(), t.opt.second[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trainer) checkTrained(what string, x *ggml.Tensor) error {
	bad, found, err := nonFinite(x)
	if found {
		err = lowerRate(fmt.Sprintf("after step %d %s holds %v", t.step, what, bad))
	}
	return err
}

// checkTokens is the number of tokens that checkResult evaluates: few enough to cost almost nothing,
// even if a step takes minutes.
const checkTokens = 32

// checkResult checks that the parameters to be saved give a finite loss. Step losses are computed
// before the update, so it evaluates the beginning of a sample of the last step.
func (t *Trainer) checkResult(ctx context.Context) error {
	if err := t.checkParameters(); err != nil {
		return err
	}
	tokens, err := t.lastTokens()
	if tokens == nil {
		return err
	}
	e, err := t.evaluateAlone(ctx, data.New(checkTokens, []data.Sample{{Tokens: tokens}}))
	if err == nil && !finite(e.Loss) {
		err = t.diverged(ctx, fmt.Sprintf("after step %d the loss is %v", t.step, e.Loss), ggml.F32)
	}
	return err
}

// lastTokens returns the first tokens of a sample of the last step; nil if there is none, or if the
// rows were reshuffled since.
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

// nonFinite returns a NaN or infinite value of a tensor. It reads a few rows at a time, because a
// whole matrix may not fit into memory as F32.
func nonFinite(x *ggml.Tensor) (value float32, found bool, err error) {
	const most = 1 << 18 // values
	rows := max(1, most/x.Dim(0))
	for from := int64(0); from < x.NumRows() && !found && err == nil; from += rows {
		value, found, err = nonFiniteRows(x, from, min(rows, x.NumRows()-from))
	}
	return value, found, err
}

// nonFiniteRows is nonFinite for n rows.
func nonFiniteRows(x *ggml.Tensor, from, n int64) (value float32, found bool, err error) {
	typ, rowLen := x.Type(), x.Dim(0)
	if !typ.CanDequantize() {
		return 0, false, nil
	}
	raw, values := make([]byte, typ.RowSize(n*rowLen)), make([]float32, n*rowLen)
	if _, err := x.ReadAt(raw, from*typ.RowSize(rowLen)); err != nil {
		return 0, false, err
	}
	if err := ggml.Dequantize(values, typ, raw); err != nil {
		return 0, false, err
	}
	value, found = firstNonFinite(values)
	return value, found, nil
}

func firstNonFinite(values []float32) (value float32, found bool) {
	for _, v := range values {
		if v-v != 0 {
			return v, true
		}
	}
	return 0, false
}
