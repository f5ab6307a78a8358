package data

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Broken counts the broken records that a run skips. The zero value is ready for use. It is safe for
// concurrent use.
type Broken struct {
	mu     sync.Mutex
	counts []BrokenCount
}

// BrokenCount is the number of records with a kind of fault.
type BrokenCount struct {
	Kind  Kind
	N     int
	First *Error
}

// Skip counts a record's fault and returns true. It returns false for any other error, or if b is nil,
// which skips nothing.
func (b *Broken) Skip(err error) bool {
	var e *Error
	if b == nil || !errors.As(err, &e) || e.Kind == Unreadable || e.Kind == NoExamples {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(BrokenCount{Kind: e.Kind, N: 1, First: e})
	return true
}

// add adds to the count of a kind. The caller holds the lock.
func (b *Broken) add(more BrokenCount) {
	i := slices.IndexFunc(b.counts, func(c BrokenCount) bool { return c.Kind == more.Kind })
	if i < 0 {
		b.counts = append(b.counts, more)
		return
	}
	c := &b.counts[i]
	c.N += more.N
	// Records are encoded in any order; the report must not depend on it.
	if e := more.First; e.File < c.First.File || e.File == c.First.File && e.Line < c.First.Line {
		c.First = e
	}
}

// restore adds counts stored when the records were read.
func (b *Broken) restore(counts []BrokenCount) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range counts {
		b.add(c)
	}
}

// Counts returns the skipped kinds of faults, the most frequent first.
func (b *Broken) Counts() []BrokenCount {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := slices.Clone(b.counts)
	slices.SortFunc(counts, func(x, y BrokenCount) int {
		if x.N != y.N {
			return y.N - x.N
		}
		return strings.Compare(string(x.Kind), string(y.Kind))
	})
	return counts
}

// Total returns the number of skipped records.
func (b *Broken) Total() int {
	n := 0
	for _, c := range b.Counts() {
		n += c.N
	}
	return n
}

// skipped formats the number of broken records left out.
func skipped(n int) string {
	if n == 1 {
		return "1 broken record is skipped"
	}
	return fmt.Sprintf("%d broken records are skipped", n)
}

// String returns a report of several lines; "" if nothing was skipped.
func (b *Broken) String() string {
	total := b.Total()
	if total == 0 {
		return ""
	}
	var s strings.Builder
	s.WriteString(skipped(total) + ":")
	for _, c := range b.Counts() {
		fmt.Fprintf(&s, "\n%6d with %s, first %v", c.N, c.Kind, c.First)
	}
	return s.String()
}
