//go:build linux && cgo

package calls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
)

var (
	integers = []int64{0, 1, -1, 2, 3, 4, 7, 16, 31, 32, 64, 256, 1 << 20, 1 << 31, 1 << 40, 1<<62 - 1, math.MaxInt64, math.MinInt64}
	floats   = []float64{0, 1, -1, 0.5, 2, 1e-5, 1e30, math.NaN(), math.Inf(1), math.Inf(-1)}
	texts    = []string{
		"", "text", "\x00", "\xff", "blk.0.attn_q.weight", "attn_q", "q_proj", "output", "all-linear", "llama", "text.txt", "model.gguf", "adapter.gguf",
		"missing/file", "new.gguf", "general.name", "{{ messages[0].content }}", `{"text": "a"}`, "user", "assistant", "normal", "cut", strings.Repeat("long ", 1000),
	}
)

const maxDepth = 3

// value draws an argument. Each argument has its own random numbers, so changing one does not change the
// others.
func (c *caller) value(rng *rand.Rand, t reflect.Type, depth int) reflect.Value {
	rng = rand.New(rand.NewPCG(rng.Uint64(), 0))
	if number := rng.Uint64(); rng.IntN(4) > 0 && t.Kind() != reflect.Interface {
		if c.hot.IsValid() && c.hot.Type() == t {
			return c.hot
		}
		if v, ok := c.pool.pick(t, number, c.goroutine); ok {
			return v
		}
	}
	if t.Kind() == reflect.Interface {
		return c.implementation(rng, t)
	}
	v := reflect.New(t).Elem()
	if depth > maxDepth {
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(integer(rng))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(integer(rng)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(floats[rng.IntN(len(floats))])
	case reflect.String:
		v.SetString(texts[rng.IntN(len(texts))])
	case reflect.Slice:
		if rng.IntN(5) == 0 {
			return v
		}
		n := []int{0, 1, 2, 3, 4, 16}[rng.IntN(6)]
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(c.value(rng, t.Elem(), depth+1))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(c.value(rng, t.Elem(), depth+1))
		}
	case reflect.Map:
		if rng.IntN(4) == 0 {
			return v
		}
		v.Set(reflect.MakeMap(t))
		for range rng.IntN(3) {
			v.SetMapIndex(c.value(rng, t.Key(), depth+1), c.value(rng, t.Elem(), depth+1))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && rng.IntN(2) == 0 {
				v.Field(i).Set(c.value(rng, t.Field(i).Type, depth+1))
			}
		}
	case reflect.Pointer:
		if rng.IntN(3) == 0 || !isPlain(t.Elem()) && !strings.HasPrefix(t.Elem().PkgPath(), modulePath) || c.registry.isInternal(t.Elem()) {
			return v // zero values of other modules are not tested here, and no caller has an internal type
		}
		v.Set(reflect.New(t.Elem()))
		if t.Elem().Kind() != reflect.Struct || isPlain(t.Elem()) {
			v.Elem().Set(c.value(rng, t.Elem(), depth+1))
		}
	case reflect.Func:
		if rng.IntN(8) == 0 {
			return v
		}
		v.Set(c.function(rng, t, depth))
	case reflect.Chan:
		v.Set(reflect.MakeChan(reflect.ChanOf(reflect.BothDir, t.Elem()), 100).Convert(t))
	}
	return v
}

func integer(rng *rand.Rand) int64 {
	if rng.IntN(2) == 0 {
		return int64(rng.IntN(5))
	}
	return integers[rng.IntN(len(integers))]
}

// isPlain reports whether a struct has only exported fields.
func isPlain(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return true
	}
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			return false
		}
	}
	return true
}

// function returns a callback or a sequence. Some panic.
func (c *caller) function(rng *rand.Rand, t reflect.Type, depth int) reflect.Value {
	seed := rng.Uint64()
	var results []reflect.Value
	for i := range t.NumOut() {
		results = append(results, c.value(rng, t.Out(i), depth+2))
	}
	var items [][]reflect.Value
	if strings.HasPrefix(t.String(), "iter.Seq") || t.NumIn() == 1 && t.In(0).Kind() == reflect.Func && t.NumOut() == 0 {
		for range 3 {
			var item []reflect.Value
			for i := range t.In(0).NumIn() {
				item = append(item, c.value(rng, t.In(0).In(i), depth+1))
			}
			items = append(items, item)
		}
	}
	return reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
		if seed%10 == 0 {
			panic(marker{})
		}
		for _, item := range items {
			if r := args[0].Call(item); len(r) == 1 && r[0].Kind() == reflect.Bool && !r[0].Bool() {
				break
			}
		}
		return results
	})
}

// implementation returns a value that implements an interface.
func (c *caller) implementation(rng *rand.Rand, t reflect.Type) reflect.Value {
	var v any
	switch t {
	case reflect.TypeFor[context.Context]():
		switch rng.IntN(6) {
		case 0:
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errors.New("cancelled"))
			v = ctx
		default:
			v = context.Background()
		}
	case reflect.TypeFor[error]():
		if rng.IntN(2) == 0 {
			v = errors.New("an error of a callback")
		}
	case reflect.TypeFor[any]():
		v = []any{nil, int32(1), "text", []string{"a"}, true, float32(1), map[string]any{"role": "user"}, struct{}{}}[rng.IntN(8)]
	default:
		v = stream(rng, t)
	}
	out := reflect.New(t).Elem()
	if v == nil {
		if kept, ok := c.pool.pick(t, rng.Uint64(), c.goroutine); ok && t.NumMethod() > 0 {
			out.Set(kept)
		}
		return out
	}
	if reflect.TypeOf(v).AssignableTo(t) {
		out.Set(reflect.ValueOf(v))
	}
	return out
}

// stream returns a reader or writer, which may fail, do nothing, or panic; nil for other types.
func stream(rng *rand.Rand, t reflect.Type) any {
	if rng.IntN(8) == 0 {
		return nil
	}
	for _, v := range []any{
		[]any{io.Discard, &failing{}, &panicking{}, &bytes.Buffer{}}[rng.IntN(4)],
		[]any{strings.NewReader("some text"), &failing{}, &panicking{}, &idle{}}[rng.IntN(4)],
		rand.NewPCG(1, 2),
	} {
		if reflect.TypeOf(v).Implements(t) {
			return v
		}
	}
	return nil
}

type failing struct{}

func (*failing) Read([]byte) (int, error)          { return 0, errors.New("the reader fails") }
func (*failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("the reader fails") }
func (*failing) Write([]byte) (int, error)         { return 0, errors.New("the writer fails") }

type panicking struct{}

func (*panicking) Read([]byte) (int, error)          { panic(marker{}) }
func (*panicking) ReadAt([]byte, int64) (int, error) { panic(marker{}) }
func (*panicking) Write([]byte) (int, error)         { panic(marker{}) }

// An idle reader returns no data and no error.
type idle struct{}

func (*idle) Read([]byte) (int, error)              { return 0, nil }
func (*idle) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }
