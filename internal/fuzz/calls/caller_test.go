//go:build linux && cgo

package calls

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goggml/ggml"
)

// A function is one that is exported, or a method, whose receiver is the first argument.
type function struct {
	name  string
	value reflect.Value
}

// left out are calls that change the process for good, or leave it.
var leftOut = map[string]string{
	"ggml.ServeRPC":              "listens on the network",
	"ggml.Commit":                "is a constant",
	"ggml.SetLogger":             "is the process's",
	"ggml.RegisterScratchMemory": "is for the life of the process",
	"ggml.LoadBackends":          "is for the life of the process",
	"ggml.LoadBackendsFrom":      "loads code from a path",
	"ggml.ConnectRPC":            "connects to the network",
	"ggml.NewMetaDevice":         "lives as long as the process",
	"ggml.FreeQuantizeTables":    "is documented to be called when nothing else is",
	"ggml.Registry.Unload":       "is for the life of the process",
	"model.Model.Retain":         "keeps the model until its result is called",
}

// buildsGraphs reports whether a function is one by which this module builds graphs: it takes or
// gives a type of an internal package, or is a method of what others cannot use.
func buildsGraphs(f function) bool {
	if strings.HasPrefix(f.name, "arch.Builder.") || strings.HasPrefix(f.name, "arch.Place.") {
		return true
	}
	return isInternal(f.value.Type())
}

// isInternal reports whether a type is made of one of an internal package.
func isInternal(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if t.Name() == "" {
			return isInternal(t.Elem())
		}
	case reflect.Func:
		for i := range t.NumIn() {
			if isInternal(t.In(i)) {
				return true
			}
		}
		for i := range t.NumOut() {
			if isInternal(t.Out(i)) {
				return true
			}
		}
	}
	return strings.Contains(t.PkgPath(), "/internal/")
}

// callable lists functions and methods.
func callable() []function {
	var list []function
	add := func(f function) {
		name := strings.ReplaceAll(strings.ReplaceAll(f.name, "(*", ""), ")", "")
		if leftOut[name] == "" && !buildsGraphs(f) {
			list = append(list, f)
		}
	}
	for _, f := range functions {
		add(f)
	}
	for _, t := range types {
		if t.Kind() == reflect.Interface {
			continue
		}
		p := reflect.PointerTo(t)
		for i := range p.NumMethod() {
			m := p.Method(i)
			if byValue, ok := t.MethodByName(m.Name); ok { // also through a nil pointer it would be a panic of Go's
				m = byValue
			}
			add(function{t.String() + "." + m.Name, m.Func})
		}
	}
	slices.SortStableFunc(list, func(a, b function) int { return strings.Compare(a.name, b.name) })
	return list
}

const (
	maxKept  = 24              // values of a type in the pool
	maxTime  = 5 * time.Second // of a call
	perRound = 300             // calls, after which all is closed
)

// marker is what callbacks panic with.
type marker struct{}

func (marker) String() string { return "panic of a callback" }

// A caller calls with arguments from its pool.
type caller struct {
	rng    *rand.Rand
	pool   map[reflect.Type][]reflect.Value
	folder string
	out    io.Writer
	list   []function

	dropped []reflect.Value // from the pool, and yet to be closed
}

// A finding ends a run.
type finding struct{ what, detail string }

func (c *caller) keep(v reflect.Value) {
	if !v.IsValid() {
		return
	}
	if v.Kind() == reflect.Interface {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	if v.Type().Implements(reflect.TypeFor[error]()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map:
		list := c.pool[v.Type()]
		if len(list) < maxKept {
			c.pool[v.Type()] = append(list, v)
			return
		}
		c.dropped = append(c.dropped, list[0])
		c.pool[v.Type()] = append(list[1:], v)
	case reflect.Func:
		c.consume(v)
	}
}

// consume iterates over a sequence.
func (c *caller) consume(v reflect.Value) {
	t := v.Type()
	if v.IsNil() || !strings.HasPrefix(t.String(), "iter.Seq") {
		return
	}
	n := 0
	most := c.rng.IntN(40)
	yield := reflect.MakeFunc(t.In(0), func(args []reflect.Value) []reflect.Value {
		for _, a := range args {
			c.keep(a)
		}
		n++
		return []reflect.Value{reflect.ValueOf(n < most)}
	})
	v.Call([]reflect.Value{yield})
}

// step makes one call. It returns what is wrong with it.
func (c *caller) step(i int) *finding {
	f := c.list[c.rng.IntN(len(c.list))]
	t := f.value.Type()
	args := make([]reflect.Value, t.NumIn())
	for k := range args {
		args[k] = c.value(t.In(k), 0)
	}
	if t.NumIn() > 0 && args[0].Kind() == reflect.Pointer && args[0].IsNil() && c.rng.IntN(4) > 0 && isMethodOf(f.name) {
		if list := c.pool[t.In(0)]; len(list) > 0 {
			args[0] = list[c.rng.IntN(len(list))]
		}
	}
	fmt.Fprintf(c.out, "call %d %s(%s)\n", i, f.name, describe(args))
	// To use what nobody has made is a panic of Go's, but for the binding, of which it is an error.
	nobodys := !strings.HasPrefix(f.name, "ggml.") && slices.ContainsFunc(args, isUnmade)
	type outcome struct {
		results []reflect.Value
		fault   *finding
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() { done <- o }()
		defer func() {
			r := recover()
			if r == nil {
				return
			}
			stack := string(debug.Stack())
			if _, ok := r.(runtime.Error); ok && nobodys {
				return
			}
			if _, ours := r.(marker); ours || panics[f.name] || strings.Contains(fmt.Sprint(r), "panic of a callback") {
				return
			}
			o.fault = &finding{"panic in " + f.name + ": " + fmt.Sprint(r), stack}
		}()
		if t.IsVariadic() {
			o.results = f.value.CallSlice(args)
		} else {
			o.results = f.value.Call(args)
		}
		for _, r := range o.results {
			c.keep(r)
		}
	}()
	for waited := time.Duration(0); ; waited += maxTime {
		before := cpuTime()
		select {
		case o := <-done:
			return o.fault
		case <-time.After(maxTime):
			// A busy machine makes calls slow; a call that waits takes no time at all.
			if used := cpuTime() - before; used > maxTime/2 || used < maxTime/100 || waited > 10*maxTime {
				buf := make([]byte, 1<<20)
				return &finding{"a call of more than five seconds: " + f.name, string(buf[:runtime.Stack(buf, true)])}
			}
		}
	}
}

func isMethodOf(name string) bool { return strings.Count(name, ".") == 2 }

// isUnmade reports whether an argument is nil or a zero value where an object is wanted, or
// has such a one in it.
func isUnmade(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface:
		return v.IsNil() || isUnmade(v.Elem())
	case reflect.Pointer, reflect.Func, reflect.Map:
		return v.IsNil() || v.Kind() == reflect.Pointer && isUnmade(v.Elem())
	case reflect.Struct:
		if !isPlain(v.Type()) {
			return v.IsZero()
		}
		for i := range v.NumField() {
			if isUnmade(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if isUnmade(v.Index(i)) {
				return true
			}
		}
	}
	return false
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// closeAll closes what the pool has, and reports what is left open.
func (c *caller) closeAll(goroutines int) *finding {
	closed := map[uintptr]bool{}
	for _, list := range append(slices.Collect(maps.Values(c.pool)), c.dropped) {
		for _, v := range list {
			if v.Kind() != reflect.Pointer || v.IsNil() || closed[v.Pointer()] {
				continue
			}
			if m, ok := v.Interface().(io.Closer); ok {
				closed[v.Pointer()] = true
				func() {
					defer func() { _ = recover() }()
					m.Close()
				}()
			}
		}
	}
	c.pool, c.dropped = nil, nil
	for range 50 {
		runtime.GC()
		if len(ggml.OpenObjects()) == 0 && runtime.NumGoroutine() <= goroutines {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	if open := ggml.OpenObjects(); len(open) > 0 {
		return &finding{fmt.Sprintf("left open: %v", open), ""}
	}
	buf := make([]byte, 1<<20)
	return &finding{"goroutines left", string(buf[:runtime.Stack(buf, true)])}
}

// run makes the calls of a seed, in rounds.
func run(seed uint64, calls int, out io.Writer) error {
	folder, err := os.MkdirTemp("", "calls")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.Chdir(folder); err != nil {
		return err
	}
	list := callable()
	if *only != "" {
		list = slices.DeleteFunc(list, func(f function) bool { return !strings.HasPrefix(f.name, *only) })
	}
	for from := 0; from < calls; from += perRound {
		c := &caller{rng: rand.New(rand.NewPCG(seed, uint64(from))), pool: map[reflect.Type][]reflect.Value{}, folder: folder, out: out, list: list}
		fmt.Fprintf(out, "round %d\n", from)
		if err := os.WriteFile("text.txt", []byte("a text\n"), 0o666); err != nil {
			return err
		}
		c.prologue()
		goroutines := runtime.NumGoroutine()
		for i := from; i < min(from+perRound, calls); i++ {
			if f := c.step(i); f != nil {
				fmt.Fprintf(out, "finding %s\n%s\n", f.what, f.detail)
				if *stop {
					return fmt.Errorf("%s", f.what)
				}
			}
		}
		if f := c.closeAll(goroutines); f != nil {
			fmt.Fprintf(out, "finding %s\n%s\n", f.what, f.detail)
		}
		clean(folder)
	}
	return nil
}

func clean(folder string) {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		os.RemoveAll(filepath.Join(folder, e.Name()))
	}
}
