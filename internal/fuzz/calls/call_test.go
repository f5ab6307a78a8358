//go:build linux && cgo

package calls

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// marker is the value with which callbacks panic.
type marker struct{}

func (marker) String() string { return "panic of a callback" }

// run makes the call.
func (p *call) run(r *registry) {
	defer func() {
		if x := recover(); x != nil && !p.isAnnounced(r, x) {
			p.fault = &finding{Kind: "panic", Where: p.name, What: fmt.Sprint(x), Detail: string(debug.Stack())}
		}
	}()
	apply := p.value.Call
	if p.value.Type().IsVariadic() {
		apply = p.value.CallSlice
	}
	for _, v := range apply(p.args) {
		p.take(v)
	}
}

// isAnnounced reports whether the caller could expect a panic: it is documented, a callback raised it, or it is
// Go's own panic of a method on nil outside the binding.
func (p *call) isAnnounced(r *registry, x any) bool {
	_, isGo := x.(runtime.Error)
	ofNil := p.isMethod() && p.args[0].Kind() == reflect.Pointer && p.args[0].IsNil()
	return r.panics[p.name] || strings.Contains(fmt.Sprint(x), marker{}.String()) ||
		isGo && ofNil && !strings.HasPrefix(p.name, "ggml.")
}

// take stores a result, and the items of a sequence, in the pool.
func (p *call) take(v reflect.Value) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || v.Type().Implements(reflect.TypeFor[error]()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if !v.IsNil() {
			p.results = append(p.results, v)
		}
	case reflect.Struct:
		p.results = append(p.results, v)
	case reflect.Func:
		if t := v.Type(); !v.IsNil() && strings.HasPrefix(t.String(), "iter.Seq") {
			v.Call([]reflect.Value{p.yield(t.In(0))})
		}
	}
}

// yield receives some of the items of a sequence.
func (p *call) yield(t reflect.Type) reflect.Value {
	more := rand.New(rand.NewPCG(uint64(p.number), 0)).IntN(40)
	return reflect.MakeFunc(t, func(items []reflect.Value) []reflect.Value {
		for _, item := range items {
			p.take(item)
		}
		more--
		return []reflect.Value{reflect.ValueOf(more >= 0)}
	})
}

// A worker is a goroutine that makes calls one after the other.
type worker struct {
	calls   []*call
	current atomic.Pointer[call]
	done    chan struct{}
}

func (w *worker) start(r *registry) {
	w.done = make(chan struct{})
	if len(w.calls) > 0 {
		w.current.Store(w.calls[0])
	}
	go func() {
		defer close(w.done)
		for _, p := range w.calls {
			w.current.Store(p)
			p.run(r)
		}
	}()
}

// wait returns the call that exceeds the time limit among concurrent goroutines, or nil when all have ended. On a
// busy machine all calls are slow, so the process must also have used processor time, or none at all: then it waits.
func (w *worker) wait(limit time.Duration, goroutines int) *call {
	slow, began := w.current.Load(), cpuTime()
	before, waited := began, time.Duration(0)
	for {
		select {
		case <-w.done:
			return nil
		case <-time.After(limit):
		}
		now := cpuTime()
		if p := w.current.Load(); p != slow {
			slow, began, before, waited = p, now, now, 0
			continue
		}
		waited += limit
		if now-began > time.Duration(goroutines)*limit/2 || now-before < limit/100 || waited > 10*limit {
			return slow
		}
		before = now
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
