//go:build linux && cgo

package calls

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/safetensors"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// A nil object, or a zero value, as an argument or in a struct is an error, and so is one as the receiver of a
// method that can fail. Other methods of a zero value return zero values.
func TestNilArguments(t *testing.T) {
	need.Time(t, "calls all functions, with working objects for each")
	var base objects
	last := "" // the last package; each has objects of its own
	for _, f := range public.callable("") {
		if strings.HasPrefix(f.name, "ggml.") {
			continue // the binding has tables with more cases
		}
		if name, _, _ := strings.Cut(f.name, "."); name != last {
			base.close()
			base, last = workingObjects(t), name
		}
		kind := f.value.Type()
		args := make([]reflect.Value, kind.NumIn())
		for i := range args {
			args[i] = base.of(kind.In(i))
		}
		for i := range args {
			isReceiver := i == 0 && f.isMethod()
			for _, nobodys := range base.without(args[i]) {
				isNil := nobodys.Kind() == reflect.Pointer && nobodys.IsNil()
				if isReceiver && (isNil && !canFail(kind) || public.panics[f.name]) {
					continue // may panic, as Go does
				}
				changed := slices.Clone(args)
				changed[i] = nobodys
				if fault := attempt(f.value, changed); fault != "" {
					t.Errorf("argument %d of %s is %s: %s", i, f.name, (*pool)(nil).describe(changed[i:i+1]), fault)
				}
			}
		}
	}
	base.close()
}

// canFail reports whether the last result of a function is an error.
func canFail(kind reflect.Type) bool {
	n := kind.NumOut()
	return n > 0 && kind.Out(n-1) == reflect.TypeFor[error]()
}

// attempt calls a function, and returns a description of Go's own panic, if any.
func attempt(f reflect.Value, args []reflect.Value) (fault string) {
	defer func() {
		r := recover()
		if _, ok := r.(runtime.Error); ok {
			fault = fmt.Sprintf("%v\n%s", r, debug.Stack())
		}
	}()
	apply := f.Call
	if f.Type().IsVariadic() {
		apply = f.CallSlice
	}
	for _, out := range apply(args) {
		c, ok := out.Interface().(io.Closer)
		switch {
		case ok && !out.IsZero() && !slices.Contains(args, out):
			c.Close()
		case out.Kind() == reflect.Func && strings.HasPrefix(out.Type().String(), "iter.Seq"):
			stop := func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(false)} }
			out.Call([]reflect.Value{reflect.MakeFunc(out.Type().In(0), stop)})
		}
	}
	return ""
}

// objects maps types to valid values.
type objects map[reflect.Type]reflect.Value

func workingObjects(t *testing.T) objects {
	t.Chdir(t.TempDir())
	c := &caller{pool: newPool(&public)}
	c.prologue(rand.New(rand.NewPCG(1, 1)))
	o := objects{}
	for kind, list := range c.pool.entries {
		o[kind] = list[0].value
	}
	return o
}

func get[T any](o objects) T { return o[reflect.TypeFor[T]()].Interface().(T) }

func (o objects) close() {
	for _, v := range o {
		if c, ok := v.Interface().(io.Closer); ok {
			c.Close()
		}
	}
}

// of returns a valid argument of a type.
func (o objects) of(kind reflect.Type) reflect.Value {
	if v, ok := o[kind]; ok {
		return v
	}
	v := reflect.New(kind).Elem()
	for _, implementation := range []any{
		context.Background(), io.Discard, strings.NewReader("text"), get[*ggml.GGUF](o), io.EOF,
		iter.Seq[string](slices.Values([]string{"a"})),
		iter.Seq2[float32, error](func(yield func(float32, error) bool) { yield(1, nil) }),
		func(float32) (data.Sample, error) { return data.Sample{Tokens: []int32{1, 2}}, nil },
	} {
		if reflect.TypeOf(implementation).AssignableTo(kind) {
			v.Set(reflect.ValueOf(implementation))
			return v
		}
	}
	switch kind.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(kind.Elem()))
	case reflect.Slice:
		v.Set(reflect.Append(v, o.of(kind.Elem())))
	case reflect.Struct:
		for i := range kind.NumField() {
			if field := kind.Field(i); field.IsExported() && o[field.Type].IsValid() {
				v.Field(i).Set(o[field.Type])
			}
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("x")
	case reflect.Func:
		v.Set(reflect.MakeFunc(kind, func([]reflect.Value) (out []reflect.Value) {
			for i := range kind.NumOut() {
				out = append(out, reflect.Zero(kind.Out(i)))
			}
			return out
		}))
	}
	return v
}

// without returns copies of v in each of which one object is nil or a zero value.
func (o objects) without(v reflect.Value) (list []reflect.Value) {
	kind := v.Type()
	switch kind.Kind() {
	case reflect.Pointer:
		list = append(list, reflect.Zero(kind), reflect.New(kind.Elem()))
	case reflect.Interface, reflect.Func:
		list = append(list, reflect.Zero(kind))
	case reflect.Map:
		list = append(list, reflect.Zero(kind))
		for _, key := range v.MapKeys() {
			for _, x := range o.without(v.MapIndex(key)) {
				changed := reflect.MakeMap(kind)
				changed.SetMapIndex(key, x)
				list = append(list, changed)
			}
		}
	case reflect.Slice:
		list = append(list, reflect.Zero(kind))
		if v.Len() == 1 {
			for _, x := range o.without(v.Index(0)) {
				list = append(list, reflect.Append(reflect.Zero(kind), x))
			}
		}
	case reflect.Struct:
		list = append(list, reflect.Zero(kind))
		for i := range kind.NumField() {
			if !kind.Field(i).IsExported() {
				continue
			}
			for _, x := range o.without(v.Field(i)) {
				changed := reflect.New(kind).Elem()
				changed.Set(v)
				changed.Field(i).Set(x)
				list = append(list, changed)
			}
		}
	}
	return list
}

func TestNilMessages(t *testing.T) {
	o := workingObjects(t)
	defer o.close()
	m := get[*model.Model](o)
	var none context.Context
	const unmade = "use of nil or a zero value: tensors come from a Context, devices from Devices, other objects from the functions that make or open them"
	for want, err := range map[string]error{
		"tokenizer: the metadata is nil":                                 second(tokenizer.FromMetadata(nil)),
		"the engine is nil":                                              m.CheckEngine(nil, nil),
		"the engine is a zero value; New makes one: " + unmade:           m.CheckEngine(&device.Engine{}, nil),
		"the session is a zero value; NewSession makes one: " + unmade:   second(new(infer.Session).NewSequence()),
		"the sequence is a zero value; NewSequence makes one: " + unmade: second(new(infer.Sequence).Rewind(0)),
		"the sampler is nil or a zero value; sample.New makes one":       second(new(sample.Sampler).Sample([]float32{1})),
		"the loss graph is a zero value; New makes one: " + unmade:       new(lossgraph.Graph).Allocate(),
		"the trainer is a zero value; New makes one: " + unmade:          new(train.Trainer).CheckMemory(),
		"the context.Context is nil":                                     get[*train.Trainer](o).Run(none, train.RunOptions{}),
		"the conversation is nil":                                        second(get[*generate.Chat](o).Tokens(nil)),
		"the template is nil; Parse makes one":                           second((*chat.Template)(nil).Render(nil, nil)),
		"the writer is nil":                                              safetensors.Encode(nil, nil, nil),
	} {
		require.EqualError(t, err, want)
	}
	variables := map[string]any{"enable_thinking": true}
	require.Equal(t, chat.Options{Variables: variables}, data.RenderOptions(nil, variables))
}

func second[T any](_ T, err error) error { return err }
