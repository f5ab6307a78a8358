package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/goggml/ggml/llm/parallel"
)

// A shared value must be equal on all ranks of a group.
type shared struct {
	name  string
	value any
	kind  sharedKind
}

type sharedKind int

const (
	_             sharedKind = iota
	opaqueShared             // the value is a fingerprint, not shown in messages
	explainShared            // need not be equal, but explains why a later fingerprint differs
)

// agreeOn is like [agree], and returns an error if shared values differ between ranks. Ranks compare a
// digest, and exchange the values only if digests differ.
func agreeOn(ctx context.Context, g parallel.Group, err error, sums []float64, list ...shared) error {
	if g.Size() == 1 {
		return err
	}
	if err == nil {
		err = ctx.Err()
	}
	texts := make([]sharedText, len(list))
	digest := fnv.New64a()
	for i, x := range list {
		texts[i] = sharedText{x.name, fmt.Sprint(x.value), x.kind}
		if x.kind != explainShared {
			fmt.Fprintf(digest, "%q %q ", x.name, texts[i].Value)
		}
	}
	all := append(make([]float64, g.Size()), sums...)
	all[g.Rank()] = float64(digest.Sum64() >> 11) // 53 bits, exact in a float64
	if err := agree(ctx, g, err, all); err != nil {
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
	Kind        sharedKind
}

// differenceOf describes the first difference between a rank and rank 0; "" if none.
func differenceOf(first, other []sharedText, rank int) string {
	explanation := ""
	for _, name := range namesOf(first, other) {
		a, b := named(first, name), named(other, name)
		kind := max(a.Kind, b.Kind)
		switch text := fmt.Sprintf("%s is %s on rank 0 and %s on rank %d", name, a.Value, b.Value, rank); {
		case a.Value == b.Value:
		case kind == explainShared && explanation == "":
			explanation = text
		case kind == explainShared:
		case kind == opaqueShared && explanation != "":
			return explanation
		case kind == opaqueShared:
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
	return sharedText{Value: absent}
}

// exchange returns the lists of all ranks.
func exchange(ctx context.Context, g parallel.Group, own []sharedText) ([][]sharedText, error) {
	text, err := json.Marshal(own)
	if err := agree(ctx, g, err, nil); err != nil {
		return nil, err
	}
	all, err := g.AllGather(ctx, text)
	if err != nil {
		return nil, groupError(err)
	}
	lists := make([][]sharedText, len(all))
	for rank, text := range all {
		if err := json.Unmarshal(text, &lists[rank]); err != nil {
			return nil, fmt.Errorf("the settings of rank %d: %w", rank, err)
		}
	}
	return lists, nil
}

// CheckGroup returns an error unless all processes of the group would compute the same: the same
// parameters, settings and data, at the same step. [Trainer.Run] begins with it; all ranks call it.
func (t *Trainer) CheckGroup(ctx context.Context) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if ctx == nil {
		return errNoContext
	}
	if t.group.Size() == 1 {
		return nil
	}
	list, err := t.sharedSettings()
	return agreeOn(ctx, t.group, err, nil, list...)
}

// sharedSettings returns everything that determines a run, including the current parameters. It omits
// checkpointing and weight copies, which depend on each process's devices and memory.
func (t *Trainer) sharedSettings() ([]shared, error) {
	fixed, err := t.fixedSettings()
	if err != nil {
		return nil, err
	}
	free, err := t.freeSettings()
	if err != nil {
		return nil, err
	}
	var trained string
	if trained, err = hashTensors(t.trained()); err != nil {
		return nil, err
	}
	list := t.shared()
	for _, p := range t.opt.params {
		list = append(list, shared{name: "tensor " + p.Name(), value: shapeOf(p.Type(), p.Shape())})
	}
	for _, s := range slices.Concat(t.originSettings(), fixed, free) {
		x := shared{name: s.words, value: s.value}
		switch {
		case s.id == SettingCheckpointing, s.id == SettingWeightCopies:
			continue
		case s.keys == originKeys:
			x.kind = explainShared
		case s.opaque:
			x.kind = opaqueShared
		}
		list = append(list, x)
	}
	return append(list, shared{"parameters", trained, opaqueShared}), nil
}

// shared returns the progress and length of the run.
func (t *Trainer) shared() []shared {
	return []shared{
		{name: "the number of steps that are done", value: t.step}, {name: "the position in the data", value: t.position},
		{name: "the number of all steps", value: t.TotalSteps()},
	}
}
