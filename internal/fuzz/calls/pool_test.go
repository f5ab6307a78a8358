//go:build linux && cgo

package calls

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
)

// A pool holds the results of calls. The value that an argument takes does not depend on the number of other
// values, so a run of fewer calls makes the remaining calls with the same arguments.
type pool struct {
	alone   map[reflect.Type]string
	entries map[reflect.Type][]entry
	names   map[uintptr]string
}

type entry struct {
	value reflect.Value
	id    uint64 // of the call that returned it
	owner int    // the only goroutine that may use it, or everyone
}

const everyone = -1

func newPool(r *registry) *pool {
	return &pool{alone: r.alone, entries: map[reflect.Type][]entry{}, names: map[uintptr]string{}}
}

// isShared reports whether goroutines may share values of a type: objects, unless their
// documentation forbids it. Slices, maps and structs are ordinary variables.
func (p *pool) isShared(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && !isPlain(t.Elem()) && p.alone[t.Elem()] == ""
}

// add stores a value that a goroutine received.
func (p *pool) add(v reflect.Value, id uint64, name string, goroutine int) {
	e := entry{v, id, goroutine}
	if p.isShared(v.Type()) {
		e.owner = everyone
	}
	p.entries[v.Type()] = append(p.entries[v.Type()], e)
	if v.Kind() != reflect.Struct && p.names[v.Pointer()] == "" {
		p.names[v.Pointer()] = name
	}
}

// pick returns, among the values of a type (or of types that implement an interface) that a goroutine may use,
// the one whose id has the smallest hash with a number.
func (p *pool) pick(t reflect.Type, number uint64, goroutine int) (chosen reflect.Value, ok bool) {
	least := uint64(0)
	among := func(list []entry) {
		for _, e := range list {
			if e.owner != everyone && e.owner != goroutine {
				continue
			}
			if h := mix(number ^ mix(e.id)); !ok || h < least {
				chosen, least, ok = e.value, h, true
			}
		}
	}
	if t.Kind() != reflect.Interface {
		among(p.entries[t])
		return chosen, ok
	}
	for kept, list := range p.entries {
		if kept.Implements(t) {
			among(list)
		}
	}
	return chosen, ok
}

// shared returns an object that goroutines share; number selects its type.
func (p *pool) shared(number uint64) (chosen reflect.Value) {
	least := uint64(0)
	for t := range p.entries {
		if !p.isShared(t) {
			continue
		}
		h := fnv.New64a()
		h.Write([]byte(t.String()))
		if x := mix(number ^ h.Sum64()); !chosen.IsValid() || x < least {
			least = x
			chosen, _ = p.pick(t, number, everyone)
		}
	}
	return chosen
}

// name returns the name of the call that returned the target of a pointer. A nil pool has no names.
func (p *pool) name(pointer uintptr) string {
	if p == nil {
		return ""
	}
	return p.names[pointer]
}

// all returns the values, in an order that a number determines.
func (p *pool) all(number uint64) []reflect.Value {
	var list []entry
	for _, l := range p.entries {
		list = append(list, l...)
	}
	slices.SortFunc(list, func(a, b entry) int {
		x, y := mix(number^mix(a.id)), mix(number^mix(b.id))
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	var values []reflect.Value
	for _, e := range list {
		values = append(values, e.value)
	}
	return values
}

// mix is the finaliser of SplitMix64: each bit of the result depends on all of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// valueName names result k of a call.
func valueName(call string, k int) string {
	if k == 0 {
		return "#" + call
	}
	return fmt.Sprintf("#%s.%d", call, k)
}
