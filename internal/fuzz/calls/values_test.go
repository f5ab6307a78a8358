//go:build linux && cgo

package calls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

var (
	integers = []int64{0, 1, -1, 2, 3, 4, 7, 16, 31, 32, 64, 256, 1 << 20, 1 << 31, 1 << 40, 1<<62 - 1, math.MaxInt64, math.MinInt64}
	floats   = []float64{0, 1, -1, 0.5, 2, 1e-5, 1e30, math.NaN(), math.Inf(1), math.Inf(-1)}
	texts    = []string{
		"", "text", "\x00", "\xff", "blk.0.attn_q.weight", "attn_q", "q_proj", "output", "all-linear", "llama", "text.txt", "model.gguf", "adapter.gguf",
		"missing/file", "new.gguf", "general.name", "{{ messages[0].content }}", `{"text": "a"}`, "user", "assistant", "normal", "cut", strings.Repeat("long ", 1000),
	}
)

// prologue puts objects into the pool that chance would hardly make.
func (c *caller) prologue() {
	keep := func(v any, err error) {
		if err != nil {
			panic(err)
		}
		c.keep(reflect.ValueOf(v))
	}
	vocabulary, err := tokenizer.TrainBPE(func(yield func(string) bool) { yield("some text") }, tokenizer.TrainOptions{VocabSize: 257})
	keep(vocabulary, err)
	t, err := tokenizer.New(vocabulary)
	keep(t, err)
	config := arch.Config{
		Arch: "llama", Vocab: t.NumTokens(), Context: 32, Embd: 32, FF: 32, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 16,
		RMSEps: 1e-5, Tied: c.rng.IntN(2) == 0,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	keep(config, nil)
	m, err := model.New(config, t, 1)
	keep(m, err)
	keep(m, m.Save("model.gguf", model.SaveOptions{}))
	a, err := lora.New(m, lora.Options{Rank: 2, Alpha: 1})
	keep(a, err)
	keep(a, a.Save("adapter.gguf", lora.SaveOptions{}))
	keep(a.Weights(1), nil)
	template, err := chat.Parse("template", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
	keep(template, err)
	keep(&chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "a"), chat.NewMessage("assistant", "b")}}, nil)
	s, err := sample.New(sample.Options{})
	keep(s, err)
	keep(data.New(8, []data.Sample{{Tokens: []int32{1, 2, 3}}, {Tokens: []int32{4, 5, 6, 7}}}), nil)
	ctx := ggml.NewContext()
	keep(ctx, nil)
	x, y := ctx.NewTensor(ggml.F32, 4, 4).SetName("x"), ctx.NewTensor(ggml.F32, 4, 4)
	buffers, err := ctx.Allocate(ggml.CPUBufferType())
	keep(buffers, err)
	keep(x, nil)
	keep(y, nil)
	keep(ctx.NewGraph(ctx.Add(x, y)), nil)
	b, err := ggml.NewCPUBackend(1)
	keep(b, err)
	keep(b.Device(), nil)
}

const maxDepth = 3

// value makes an argument.
func (c *caller) value(t reflect.Type, depth int) reflect.Value {
	if list := c.pool[t]; len(list) > 0 && c.rng.IntN(4) > 0 {
		return list[c.rng.IntN(len(list))]
	}
	if t.Kind() == reflect.Interface {
		return c.implementation(t)
	}
	v := reflect.New(t).Elem()
	if depth > maxDepth {
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(c.rng.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(c.integer())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		v.SetUint(uint64(c.integer()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(floats[c.rng.IntN(len(floats))])
	case reflect.String:
		v.SetString(texts[c.rng.IntN(len(texts))])
	case reflect.Slice:
		if c.rng.IntN(5) == 0 {
			return v
		}
		n := []int{0, 1, 2, 3, 4, 16}[c.rng.IntN(6)]
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(c.value(t.Elem(), depth+1))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(c.value(t.Elem(), depth+1))
		}
	case reflect.Map:
		if c.rng.IntN(4) == 0 {
			return v
		}
		v.Set(reflect.MakeMap(t))
		for range c.rng.IntN(3) {
			v.SetMapIndex(c.value(t.Key(), depth+1), c.value(t.Elem(), depth+1))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && c.rng.IntN(2) == 0 {
				v.Field(i).Set(c.value(t.Field(i).Type, depth+1))
			}
		}
	case reflect.Pointer:
		if c.rng.IntN(3) == 0 || !isPlain(t.Elem()) && !strings.HasPrefix(t.Elem().PkgPath(), modulePath) {
			return v // zero values of other modules are theirs
		}
		v.Set(reflect.New(t.Elem()))
		if t.Elem().Kind() != reflect.Struct || isPlain(t.Elem()) {
			v.Elem().Set(c.value(t.Elem(), depth+1))
		}
	case reflect.Func:
		if c.rng.IntN(8) == 0 {
			return v
		}
		v.Set(c.function(t, depth))
	case reflect.Chan:
		v.Set(reflect.MakeChan(reflect.ChanOf(reflect.BothDir, t.Elem()), 100).Convert(t))
	}
	return v
}

func (c *caller) integer() int64 {
	if c.rng.IntN(2) == 0 {
		return int64(c.rng.IntN(5))
	}
	return integers[c.rng.IntN(len(integers))]
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

// function makes a callback, or a sequence. Some panic.
func (c *caller) function(t reflect.Type, depth int) reflect.Value {
	seed := c.rng.Uint64()
	var results []reflect.Value
	for i := range t.NumOut() {
		results = append(results, c.value(t.Out(i), depth+2))
	}
	var items [][]reflect.Value
	if strings.HasPrefix(t.String(), "iter.Seq") || t.NumIn() == 1 && t.In(0).Kind() == reflect.Func && t.NumOut() == 0 {
		for range 3 {
			var item []reflect.Value
			for i := range t.In(0).NumIn() {
				item = append(item, c.value(t.In(0).In(i), depth+1))
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

// implementation makes a value of an interface.
func (c *caller) implementation(t reflect.Type) reflect.Value {
	var v any
	switch t {
	case reflect.TypeFor[context.Context]():
		switch c.rng.IntN(6) {
		case 0:
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(errors.New("cancelled"))
			v = ctx
		default:
			v = context.Background()
		}
	case reflect.TypeFor[error]():
		if c.rng.IntN(2) == 0 {
			v = errors.New("an error of a callback")
		}
	case reflect.TypeFor[any]():
		v = []any{nil, int32(1), "text", []string{"a"}, true, float32(1), map[string]any{"role": "user"}, struct{}{}}[c.rng.IntN(8)]
	default:
		v = c.stream(t)
	}
	out := reflect.New(t).Elem()
	if v == nil {
		for kept, list := range c.pool {
			_ = kept
			if len(list) > 0 && kept.Implements(t) && t.NumMethod() > 0 && !isUnmade(list[0]) {
				out.Set(list[0])
				return out
			}
		}
		return out
	}
	if reflect.TypeOf(v).AssignableTo(t) {
		out.Set(reflect.ValueOf(v))
	}
	return out
}

// stream is a reader or writer, which may fail, do nothing, or panic; nil for other types.
func (c *caller) stream(t reflect.Type) any {
	if c.rng.IntN(8) == 0 {
		return nil
	}
	for _, v := range []any{
		[]any{io.Discard, &failing{}, &panicking{}, &bytes.Buffer{}}[c.rng.IntN(4)],
		[]any{strings.NewReader("some text"), &failing{}, &panicking{}, &idle{}}[c.rng.IntN(4)],
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

// idle reads nothing, without an error.
type idle struct{}

func (*idle) Read([]byte) (int, error)              { return 0, nil }
func (*idle) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// describe shows arguments in a line, without asking them: their methods are what is tried.
func describe(args []reflect.Value) string {
	var list []string
	for _, a := range args {
		list = append(list, show(a, 0))
	}
	text := strings.Join(list, ", ")
	if len(text) > 1500 {
		text = text[:1500] + "…"
	}
	return text
}

func show(v reflect.Value, depth int) string {
	switch v.Kind() {
	case reflect.Bool:
		return fmt.Sprint(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fmt.Sprint(v.Uint())
	case reflect.Float32, reflect.Float64:
		return fmt.Sprint(v.Float())
	case reflect.String:
		s := v.String()
		if len(s) > 60 {
			s = s[:60]
		}
		return fmt.Sprintf("%q", s)
	case reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return show(v.Elem(), depth)
	case reflect.Pointer:
		if v.IsNil() {
			return "nil " + v.Type().String()
		}
		return fmt.Sprintf("%s@%x", v.Type(), v.Pointer()&0xffffff)
	case reflect.Slice, reflect.Array:
		if depth > 2 {
			return v.Type().String()
		}
		var items []string
		for i := range min(v.Len(), 4) {
			items = append(items, show(v.Index(i), depth+1))
		}
		return fmt.Sprintf("%s(%d){%s}", v.Type(), v.Len(), strings.Join(items, ", "))
	case reflect.Struct:
		if depth > 2 {
			return v.Type().String()
		}
		var fields []string
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !v.Field(i).IsZero() {
				fields = append(fields, v.Type().Field(i).Name+": "+show(v.Field(i), depth+1))
			}
		}
		return v.Type().String() + "{" + strings.Join(fields, ", ") + "}"
	}
	if v.Kind() == reflect.Func && v.IsNil() || v.Kind() == reflect.Map && v.IsNil() {
		return "nil"
	}
	return v.Type().String()
}
