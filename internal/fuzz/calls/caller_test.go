//go:build linux && cgo

package calls

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
)

// A registry lists the exports of packages.
type registry struct {
	functions []function
	types     []reflect.Type
	panics    map[string]bool         // documented to panic
	alone     map[reflect.Type]string // documented for one goroutine
}

// A function is an exported function, or a method with its receiver as the first argument.
type function struct {
	name  string
	value reflect.Value
}

// leftOut lists calls that change the process permanently, or end it.
var leftOut = map[string]string{
	"rpc.Serve":                  "listens on the network",
	"ggml.Commit":                "is a constant",
	"ggml.SetLogger":             "is the process's",
	"ggml.RegisterRemoteOps":     "is for the life of the process",
	"ggml.RegisterScratchMemory": "is for the life of the process",
	"ggml.LoadBackends":          "is for the life of the process",
	"ggml.LoadBackendsFrom":      "loads code from a path",
	"ggml.ConnectRPC":            "connects to the network",
	"ggml.NewMetaDevice":         "lives as long as the process",
	"ggml.FreeQuantizeTables":    "is documented to be called when nothing else is",
	"ggml.Registry.Unload":       "is for the life of the process",
	"model.Model.Retain":         "keeps the model until its result is called",
	"serve.Handler.ServeHTTP":    "gets its arguments from package http; llm/serve sends it changed requests",
}

// isPart reports whether only this module can call a function, as for the parts of graphs: a method of a type
// that others cannot create, or a function with a type of an internal package that no public package aliases.
func (r *registry) isPart(f function) bool {
	if strings.HasPrefix(f.name, "arch.Builder.") || strings.HasPrefix(f.name, "arch.Place.") {
		return true
	}
	return r.isInternal(f.value.Type())
}

func (r *registry) isInternal(t reflect.Type) bool {
	if t.PkgPath() != "" {
		return strings.Contains(t.PkgPath(), "/internal/") && !slices.Contains(r.types, t)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return r.isInternal(t.Elem())
	case reflect.Func:
		for i := range t.NumIn() {
			if r.isInternal(t.In(i)) {
				return true
			}
		}
		for i := range t.NumOut() {
			if r.isInternal(t.Out(i)) {
				return true
			}
		}
	}
	return false
}

// callable returns the functions and methods whose names contain part.
func (r *registry) callable(part string) []function {
	var list []function
	add := func(f function) {
		if leftOut[f.name] == "" && !r.isPart(f) && strings.Contains(f.name, part) {
			list = append(list, f)
		}
	}
	for _, f := range r.functions {
		add(f)
	}
	for _, t := range r.types {
		if t.Kind() == reflect.Interface {
			continue
		}
		p := reflect.PointerTo(t)
		for i := range p.NumMethod() {
			m := p.Method(i)
			if byValue, ok := t.MethodByName(m.Name); ok { // on a nil pointer it would be Go's own panic
				m = byValue
			}
			add(function{t.String() + "." + m.Name, m.Func})
		}
	}
	slices.SortStableFunc(list, func(a, b function) int { return strings.Compare(a.name, b.name) })
	return list
}

func (f function) isMethod() bool { return strings.Count(f.name, ".") == 2 }

// A caller prepares the calls of a round.
type caller struct {
	plan     *plan
	registry *registry
	list     []function
	closers  []function // functions that close something
	pool     *pool

	goroutine int           // goroutine of the call
	hot       reflect.Value // an object that the goroutines use concurrently
}

// A call is a function with its arguments and its results.
type call struct {
	function
	number    int
	goroutine int
	args      []reflect.Value
	results   []reflect.Value
	fault     *finding
}

// prepare chooses a function and its arguments.
func (c *caller) prepare(i int) *call {
	rng := rand.New(rand.NewPCG(c.plan.Seed, uint64(i)))
	p := &call{function: c.choose(rng), number: i, goroutine: c.goroutine}
	t := p.value.Type()
	for k := range t.NumIn() {
		p.args = append(p.args, c.value(rng, t.In(k), 0))
	}
	if p.isMethod() && p.args[0].Kind() == reflect.Pointer && p.args[0].IsNil() && rng.IntN(4) > 0 {
		if v, ok := c.pool.pick(t.In(0), rng.Uint64(), c.goroutine); ok {
			p.args[0] = v
		}
	}
	return p
}

// choose returns the function of a call: often one that closes something, or a method of the hot object.
func (c *caller) choose(rng *rand.Rand) function {
	list, number := c.list, rng.Uint64()
	switch {
	case rng.IntN(16) == 0 && len(c.closers) > 0:
		list = c.closers
	case c.hot.IsValid() && rng.IntN(2) == 0:
		methods := slices.DeleteFunc(slices.Clone(list), func(f function) bool {
			return !f.isMethod() || f.value.Type().In(0) != c.hot.Type()
		})
		if len(methods) > 0 {
			list = methods
		}
	}
	return list[number%uint64(len(list))]
}

// keep stores the results of a call in the pool.
func (c *caller) keep(p *call) {
	for k, v := range p.results {
		c.pool.add(v, uint64(p.number)<<20+uint64(k), valueName(fmt.Sprint(p.number), k), p.goroutine)
	}
}
