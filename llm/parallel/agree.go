package parallel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
)

// ErrStopped reports that a run of a group was cancelled, here or on another rank.
var ErrStopped = errors.New("stopped before the end")

// Agree replaces sums by their sums over all ranks, unless a rank passes an error: then all ranks return one. A rank
// that fails must call it too, so that the others do not wait for it. A nil group is a single process.
func Agree(ctx context.Context, g Group, err error, sums []float64) error {
	g = OrAlone(g)
	if g.Size() == 1 {
		return err
	}
	if ctx == nil {
		return cmp.Or(err, errNoContext)
	}
	failed, stopped := 0.0, 0.0
	switch {
	case err != nil && ctx.Err() != nil:
		stopped = 1
	case err != nil:
		failed = 1
	}
	if err != nil {
		ctx = context.WithoutCancel(ctx)
	}
	all := append([]float64{failed, stopped}, sums...)
	sumErr := g.AllReduce(ctx, all)
	switch {
	case err != nil:
		return err
	case sumErr != nil:
		return WrapError(sumErr)
	case all[0] > 0:
		return &SharedError{errors.New("another process of the group has failed"), true}
	case all[1] > 0:
		return &SharedError{fmt.Errorf("another process of the group was stopped: %w", ErrStopped), true}
	}
	copy(sums, all[2:])
	return nil
}

// A Shared is a value that must be equal on all ranks of a group, see [AgreeOn].
type Shared struct {
	Name  string
	Value any // compared as fmt.Sprint prints it
	Kind  SharedKind
}

// A SharedKind says how a shared value is compared and reported.
type SharedKind int

const (
	Compared    SharedKind = iota
	Fingerprint            // compared, but not shown in messages
	Explanation            // may differ, and then explains why a fingerprint differs
)

// AgreeOn is [Agree], and returns an error if shared values differ between ranks. It costs one AllReduce of their
// digest; ranks exchange the values only if digests differ.
func AgreeOn(ctx context.Context, g Group, err error, sums []float64, list ...Shared) error {
	g = OrAlone(g)
	if g.Size() == 1 {
		return err
	}
	if ctx == nil {
		return cmp.Or(err, errNoContext)
	}
	if rankErr := CheckRank(g); rankErr != nil {
		return cmp.Or(err, rankErr)
	}
	err = cmp.Or(err, ctx.Err())
	texts := make([]sharedText, len(list))
	digest := fnv.New64a()
	for i, x := range list {
		texts[i] = sharedText{x.Name, fmt.Sprint(x.Value), x.Kind}
		if x.Kind != Explanation {
			fmt.Fprintf(digest, "%q %q ", x.Name, texts[i].Value)
		}
	}
	all := append(make([]float64, g.Size()), sums...)
	all[g.Rank()] = float64(digest.Sum64() >> 11) // 53 bits, exact in a float64
	if err := Agree(ctx, g, err, all); err != nil {
		return err
	}
	copy(sums, all[g.Size():])
	if digests := all[:g.Size()]; !slices.ContainsFunc(digests, func(x float64) bool { return x != digests[0] }) {
		return nil
	}
	lists, err := exchange(ctx, g, texts)
	if err != nil {
		return err
	}
	for rank, other := range lists {
		if d := differenceOf(lists[0], other, rank); d != "" {
			return &SharedError{Err: fmt.Errorf("the group cannot train together: %s; give all ranks the same options, data and checkpoint", d)}
		}
	}
	return &SharedError{Err: errors.New("the group cannot train together: its ranks differ")}
}

// A sharedText is a shared value as ranks exchange it.
type sharedText struct {
	Name, Value string
	Kind        SharedKind
}

// differenceOf describes the first difference between a rank and rank 0; "" if none.
func differenceOf(first, other []sharedText, rank int) string {
	explanation := ""
	for _, name := range namesOf(first, other) {
		a, b := named(first, name), named(other, name)
		kind := max(a.Kind, b.Kind)
		switch text := fmt.Sprintf("%s is %s on rank 0 and %s on rank %d", name, a.Value, b.Value, rank); {
		case a.Value == b.Value:
		case kind == Explanation && explanation == "":
			explanation = text
		case kind == Explanation:
		case kind == Fingerprint && explanation != "":
			return explanation
		case kind == Fingerprint:
			return fmt.Sprintf("rank %d differs from rank 0 in %s", rank, name)
		default:
			return text
		}
	}
	return ""
}

// namesOf returns the names in the lists, without duplicates.
func namesOf(lists ...[]sharedText) (names []string) {
	for _, x := range slices.Concat(lists...) {
		if !slices.Contains(names, x.Name) {
			names = append(names, x.Name)
		}
	}
	return names
}

func named(list []sharedText, name string) sharedText {
	if i := slices.IndexFunc(list, func(x sharedText) bool { return x.Name == name }); i >= 0 {
		return list[i]
	}
	return sharedText{Value: "absent"}
}

// exchange returns the lists of all ranks.
func exchange(ctx context.Context, g Group, own []sharedText) ([][]sharedText, error) {
	text, err := json.Marshal(own)
	if err := Agree(ctx, g, err, nil); err != nil {
		return nil, err
	}
	all, err := g.AllGather(ctx, text)
	if err != nil {
		return nil, WrapError(err)
	}
	lists := make([][]sharedText, len(all))
	for rank, text := range all {
		if err := json.Unmarshal(text, &lists[rank]); err != nil {
			return nil, fmt.Errorf("the settings of rank %d: %w", rank, err)
		}
	}
	return lists, nil
}

// A SharedError is an error that all ranks of a group return together, so it need be reported only once.
type SharedError struct {
	Err       error
	Elsewhere bool // another rank has the original error
}

func (e *SharedError) Error() string { return fmt.Sprint(e.Unwrap()) }

func (e *SharedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// WrapError returns the error of a call of a group. A call that another rank cancelled is [ErrStopped] here too.
func WrapError(err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("a process of the group was stopped: %w", errors.Join(ErrStopped, err))
	}
	return fmt.Errorf("the group: %w", err)
}
