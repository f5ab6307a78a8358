package fuzz

import (
	"math"
	"reflect"

	"github.com/goggml/ggml"
)

var (
	contextType = reflect.TypeFor[*ggml.Context]()
	tensorType  = reflect.TypeFor[*ggml.Tensor]()
)

// Numbers at boundaries.
var (
	wildInts   = []int64{0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 100, 255, 256, 1000, 4096}
	hugeInts   = []int64{-1, -2, -64, 1 << 15, 1 << 16, 1<<20 - 1, 1 << 20, 1<<30 - 1, 1 << 30, math.MaxInt32, 1 << 31, 1<<32 + 1, 1 << 40, math.MaxInt64, math.MinInt64, math.MinInt32}
	wildFloats = []float64{0, 1, -1, 0.5, 1e-5, 1e-30, 2, 100, 1e10, math.MaxFloat32, -math.MaxFloat32, math.Inf(1), math.Inf(-1), math.NaN()}
)

// wild draws a value of a type; ops refuse most of them.
func (p *program) wild(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	switch t {
	case tensorType:
		if x := p.wildTensor(); x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return v
	case reflect.TypeFor[ggml.Type]():
		v.SetInt(p.Int64N(50) - 2)
		return v
	case reflect.TypeFor[ggml.CustomFunc]():
		v.Set(reflect.ValueOf(p.customFunc()))
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(p.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(p.wildInt())
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(p.wildInt()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(wildFloats[p.IntN(len(wildFloats))])
	case reflect.Slice:
		n := p.IntN(6)
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(p.wild(t.Elem()))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(p.wild(t.Elem()))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(p.wild(t.Field(i).Type))
			}
		}
	default:
		panic("no generator of " + t.String())
	}
	return v
}

// wildInt draws an integer. A program that draws a large one is not computed, because that could take forever.
func (p *program) wildInt() int64 {
	if p.IntN(3) > 0 {
		return wildInts[p.IntN(len(wildInts))]
	}
	p.huge = true
	return hugeInts[p.IntN(len(hugeInts))]
}

// wildTensor draws any tensor: nil, one of a closed or a failed context, one of another program's context, or
// one of the pool.
func (p *program) wildTensor() *ggml.Tensor {
	switch p.IntN(20) {
	case 0:
		return nil
	case 1:
		return p.machine.closed
	case 2:
		return p.machine.failed
	case 3:
		return p.foreign
	case 4:
		ne := p.shape()
		return p.placed(ggml.Types()[p.IntN(len(ggml.Types()))], ne, layout(p.IntN(int(layouts))))
	}
	if len(p.pool) == 0 {
		return nil
	}
	return p.pool[p.IntN(len(p.pool))]
}

// wildArgs draws all arguments of an op.
func (p *program) wildArgs(o op) []reflect.Value {
	t := o.f.Type()
	var args []reflect.Value
	for i := 1; i < t.NumIn(); i++ {
		if t.IsVariadic() && i == t.NumIn()-1 {
			for range p.IntN(4) {
				args = append(args, p.wild(t.In(i).Elem()))
			}
			break
		}
		args = append(args, p.wild(t.In(i)))
	}
	return args
}
