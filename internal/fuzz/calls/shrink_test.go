//go:build linux && cgo

package calls

import (
	"fmt"
	"slices"
	"strings"
)

// shrunk reduces a failure to fewer calls: each attempt makes a subset of them in a subprocess. With several
// goroutines a subset may fail only sometimes, so each is tried several times.
func (f failure) shrunk() failure {
	attempt := func(calls []int) []int {
		p := f.plan
		p.Keep = calls
		for range 1 + 4*min(1, p.Goroutines-1) {
			found, _ := p.subprocess()
			for _, g := range found {
				if g.isLike(&f.finding) {
					f.finding, f.texts = g.finding, g.texts
					return g.calls
				}
			}
		}
		return nil
	}
	if calls := attempt(f.calls); calls != nil { // otherwise the failure needs earlier rounds
		f.calls = minimal(calls, attempt)
	}
	return f
}

// minimal removes items that a failing list does not need, by delta debugging: large parts first, single items
// last, until every item is necessary. attempt returns the items up to the failure, or nil without a failure.
func minimal(list []int, attempt func([]int) []int) []int {
	for size := max(1, len(list)/2); ; {
		before := len(list)
		for from := 0; from < len(list); {
			rest := slices.Delete(slices.Clone(list), from, min(from+size, len(list)))
			if failing := attempt(rest); failing != nil {
				list = failing
			} else {
				from += size
			}
		}
		switch {
		case size > 1:
			size = max(1, min(size, len(list))/2)
		case len(list) == before:
			return list
		}
	}
}

func (f failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n%v\n", f.plan, &f.finding)
	var keep []string
	for _, i := range f.calls {
		fmt.Fprintf(&b, "    %d %s\n", i, f.texts[i])
		keep = append(keep, fmt.Sprint(i))
	}
	test := "TestCalls"
	if f.plan.Goroutines > 1 {
		test = "TestConcurrentCalls"
	}
	fmt.Fprintf(&b, "again: go test ./internal/fuzz/calls -run %s -seed %d -keep %s\n", test, f.plan.Seed, strings.Join(keep, ","))
	return b.String() + f.Detail
}
