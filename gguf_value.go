package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// keyAlignment is the key that the format itself defines.
const keyAlignment = C.GGUF_KEY_GENERAL_ALIGNMENT

const ggufTypeU32 = C.GGUF_TYPE_UINT32

// ggufTypes maps kinds of Go values to value types. An int has none: its size in a file must not
// depend on the machine.
var ggufTypes = map[reflect.Kind]C.enum_gguf_type{
	reflect.Uint8:   C.GGUF_TYPE_UINT8,
	reflect.Int8:    C.GGUF_TYPE_INT8,
	reflect.Uint16:  C.GGUF_TYPE_UINT16,
	reflect.Int16:   C.GGUF_TYPE_INT16,
	reflect.Uint32:  C.GGUF_TYPE_UINT32,
	reflect.Int32:   C.GGUF_TYPE_INT32,
	reflect.Float32: C.GGUF_TYPE_FLOAT32,
	reflect.Bool:    C.GGUF_TYPE_BOOL,
	reflect.String:  C.GGUF_TYPE_STRING,
	reflect.Uint64:  C.GGUF_TYPE_UINT64,
	reflect.Int64:   C.GGUF_TYPE_INT64,
	reflect.Float64: C.GGUF_TYPE_FLOAT64,
}

// Value returns the value of a key: an uint8, int8, uint16, int16, uint32, int32, float32, uint64,
// int64, float64, bool or string, or a slice of one of them, which the caller may keep. It reports
// false if the key is absent or the GGUF is closed. See [GGUFValue] for a value of a known type. C:
// gguf_find_key, gguf_get_val_data, gguf_get_val_str, gguf_get_arr_data, gguf_get_arr_str.
func (g *GGUF) Value(key string) (any, bool) {
	g = made(g)
	v, err := g.lookup(key)
	return v, err == nil
}

func (g *GGUF) lookup(key string) (value any, err error) {
	err = g.with(func(ctx *C.struct_gguf_context) error {
		id := ggufFindKey(ctx, key)
		if id < 0 {
			return g.keyError(key, ErrKeyNotFound, "%v", ErrKeyNotFound)
		}
		_, value, err = g.valueAt(ctx, id)
		return err
	})
	return value, err
}

func (g *GGUF) keyError(key string, cause error, format string, args ...any) error {
	return &FileError{Path: g.name, Reason: fmt.Sprintf("key %q: ", key) + fmt.Sprintf(format, args...), Err: cause}
}

func ggufFindKey(ctx *C.struct_gguf_context, key string) C.int64_t {
	if hasNUL(key) {
		return -1
	}
	return withCString(key, func(s *C.char) C.int64_t { return C.gguf_find_key(ctx, s) })
}

// valueAt returns a key and a copy of its value.
func (g *GGUF) valueAt(ctx *C.struct_gguf_context, id C.int64_t) (string, any, error) {
	r := C.goggml_gguf_kv_at(ctx, id)
	if err := guardError(r.error); err != nil {
		return "", nil, err
	}
	key := C.GoString(r.value.key)
	if v, ok := g.exact[key]; ok {
		if list, ok := v.([]string); ok {
			return key, slices.Clone(list), nil
		}
		return key, v, nil
	}
	v, err := ggufDecode(ctx, id, &r.value)
	return key, v, err
}

func ggufDecode(ctx *C.struct_gguf_context, id C.int64_t, kv *C.struct_goggml_gguf_kv) (any, error) {
	switch kv._type {
	case C.GGUF_TYPE_UINT8:
		return ggufCopy[uint8](kv), nil
	case C.GGUF_TYPE_INT8:
		return ggufCopy[int8](kv), nil
	case C.GGUF_TYPE_UINT16:
		return ggufCopy[uint16](kv), nil
	case C.GGUF_TYPE_INT16:
		return ggufCopy[int16](kv), nil
	case C.GGUF_TYPE_UINT32:
		return ggufCopy[uint32](kv), nil
	case C.GGUF_TYPE_INT32:
		return ggufCopy[int32](kv), nil
	case C.GGUF_TYPE_FLOAT32:
		return ggufCopy[float32](kv), nil
	case C.GGUF_TYPE_UINT64:
		return ggufCopy[uint64](kv), nil
	case C.GGUF_TYPE_INT64:
		return ggufCopy[int64](kv), nil
	case C.GGUF_TYPE_FLOAT64:
		return ggufCopy[float64](kv), nil
	case C.GGUF_TYPE_BOOL:
		return ggufBools(kv), nil
	case C.GGUF_TYPE_STRING:
		if !kv.array {
			return C.GoString((*C.char)(kv.data)), nil
		}
		return ggufStrings(ctx, id, int(kv.n))
	}
	return nil, fmt.Errorf("ggml: a value has the unknown type %d", int(kv._type))
}

func ggufCopy[T any](kv *C.struct_goggml_gguf_kv) any {
	if !kv.array {
		return *(*T)(kv.data)
	}
	list := make([]T, kv.n)
	copy(list, unsafe.Slice((*T)(kv.data), len(list)))
	return list
}

// ggufBools reads any byte except 0 as true: a Go bool must be 0 or 1.
func ggufBools(kv *C.struct_goggml_gguf_kv) any {
	bytes := unsafe.Slice((*byte)(kv.data), kv.n)
	if !kv.array {
		return bytes[0] != 0
	}
	list := make([]bool, len(bytes))
	for i, b := range bytes {
		list[i] = b != 0
	}
	return list
}

func ggufStrings(ctx *C.struct_gguf_context, id C.int64_t, n int) ([]string, error) {
	list := make([]string, n)
	var some [256]*C.char // batches the calls for a vocabulary
	for first := 0; first < n; first += len(some) {
		count := min(len(some), n-first)
		if err := guardError(C.goggml_gguf_strings(ctx, id, C.size_t(first), C.size_t(count), &some[0])); err != nil {
			return nil, err
		}
		for i, s := range some[:count] {
			list[first+i] = C.GoString(s)
		}
	}
	return list, nil
}

// A GGUFKey describes a key without its value.
type GGUFKey struct {
	Type string // ggml's name: "u32", "str", "arr" …
	Elem string // element type of an array, else ""
	Len  int    // number of array elements, else 1
}

// KeyType returns the type of a key's value; false if the key is absent or the GGUF is closed. It
// copies no values: arrays may be large. C: gguf_get_kv_type, gguf_get_arr_type, gguf_get_arr_n,
// gguf_type_name.
func (g *GGUF) KeyType(key string) (GGUFKey, bool) {
	g = made(g)
	var k GGUFKey
	found := false
	_ = g.with(func(ctx *C.struct_gguf_context) error {
		id := ggufFindKey(ctx, key)
		if id < 0 {
			return nil
		}
		r := C.goggml_gguf_kv_at(ctx, id)
		if err := guardError(r.error); err != nil {
			return err
		}
		found = true
		k = GGUFKey{Type: C.GoString(C.gguf_type_name(r.value._type)), Len: int(r.value.n)}
		if r.value.array {
			k.Type, k.Elem = C.GoString(C.gguf_type_name(C.GGUF_TYPE_ARRAY)), k.Type
		}
		return nil
	})
	return k, found
}

var errNilGGUF = errors.New("ggml: the GGUF is nil")

// GGUFValue returns the value of a key as a T: one of the types of [GGUF.Value], int, or a type
// defined by one of them. Integers are converted to another size or sign if they fit, and floats to
// the other size; this includes slices. Files store the same key as uint32 or uint64. The error
// names the key and the types, and wraps [ErrKeyNotFound] if the key is absent.
//
// C: gguf_get_val_u8 to gguf_get_val_str.
func GGUFValue[T any](g *GGUF, key string) (T, error) {
	var t T
	if g == nil {
		return t, errNilGGUF
	}
	v, err := g.lookup(key)
	if err != nil {
		return t, err
	}
	if t, ok := v.(T); ok {
		return t, nil
	}
	if err := ggufConvert(reflect.ValueOf(&t).Elem(), reflect.ValueOf(v)); err != nil {
		var none T
		return none, g.keyError(key, nil, "%v; it is read as %T", err, t)
	}
	return t, nil
}

func ggufConvert(dst, src reflect.Value) error {
	if dst.Kind() == reflect.Slice && src.Kind() == reflect.Slice {
		list := reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
		for i := range src.Len() {
			if err := ggufConvert(list.Index(i), src.Index(i)); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		dst.Set(list)
		return nil
	}
	fits := true
	switch {
	case dst.CanInt() && src.CanInt():
		fits = !dst.OverflowInt(src.Int())
	case dst.CanInt() && src.CanUint():
		fits = src.Uint() <= 1<<63-1 && !dst.OverflowInt(int64(src.Uint()))
	case dst.CanUint() && src.CanInt():
		fits = src.Int() >= 0 && !dst.OverflowUint(uint64(src.Int()))
	case dst.CanUint() && src.CanUint():
		fits = !dst.OverflowUint(src.Uint())
	case dst.CanFloat() && src.CanFloat():
		fits = !dst.OverflowFloat(src.Float())
	case dst.Kind() != src.Kind():
		return fmt.Errorf("the file has a value of type %v", src.Type())
	}
	if !fits {
		return fmt.Errorf("the value %v of type %v does not fit", src, src.Type())
	}
	dst.Set(src.Convert(dst.Type()))
	return nil
}

// Set sets a key to a value of one of the types of [GGUF.Value], or of a type defined by one of
// them. If the key exists, its value is replaced and the key moves to the end. An int is refused:
// use int32 or uint32. C: gguf_set_val_u8 to gguf_set_val_str, gguf_set_arr_data, gguf_set_arr_str.
func (g *GGUF) Set(key string, value any) error {
	g = made(g)
	return g.with(func(ctx *C.struct_gguf_context) error {
		if key == "" || hasNUL(key) {
			return g.keyError(key, nil, "a key is not empty and holds no NUL byte")
		}
		v := reflect.ValueOf(value)
		if key == keyAlignment {
			return g.setAlignment(v)
		}
		if err := ggufSet(ctx, key, v); err != nil {
			return g.keyError(key, nil, "%v", err)
		}
		delete(g.exact, key)
		return nil
	})
}

func ggufSet(ctx *C.struct_gguf_context, key string, v reflect.Value) error {
	if !v.IsValid() {
		return errors.New("the value is nil")
	}
	kind := v.Kind()
	if kind == reflect.Slice {
		kind = v.Type().Elem().Kind()
	}
	t, ok := ggufTypes[kind]
	if !ok {
		return fmt.Errorf("a file cannot hold a %v; use a number type with a fixed size, bool or string, or a slice of them", v.Type())
	}
	return withCString(key, func(k *C.char) error {
		switch {
		case kind == reflect.String:
			return ggufSetStrings(ctx, k, v)
		case v.Kind() == reflect.Slice:
			// Copy the slice: its backing array may be part of memory with pointers.
			copied := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(copied, v)
			return guardError(C.goggml_gguf_set_array(ctx, k, t, copied.UnsafePointer(), C.size_t(v.Len())))
		}
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		return guardError(C.goggml_gguf_set(ctx, k, t, p.UnsafePointer()))
	})
}

func ggufSetStrings(ctx *C.struct_gguf_context, key *C.char, v reflect.Value) error {
	if v.Kind() == reflect.String {
		if hasNUL(v.String()) {
			return errors.New("a string holds a NUL byte, which ggml cannot write")
		}
		return withCString(v.String(), func(s *C.char) error {
			return guardError(C.goggml_gguf_set(ctx, key, C.GGUF_TYPE_STRING, unsafe.Pointer(s)))
		})
	}
	var text strings.Builder
	for i := range v.Len() {
		s := v.Index(i).String()
		if hasNUL(s) {
			return fmt.Errorf("string %d holds a NUL byte, which ggml cannot write", i)
		}
		text.WriteString(s)
		text.WriteByte(0)
	}
	return withCString(text.String(), func(s *C.char) error {
		return guardError(C.goggml_gguf_set_strings(ctx, key, s, C.size_t(v.Len())))
	})
}

// setAlignment sets the key and realigns the tensors: ggml itself reads this key only from a
// header.
func (g *GGUF) setAlignment(v reflect.Value) error {
	if !v.IsValid() || v.Kind() != reflect.Uint32 || !validAlignment(uint32(v.Uint())) {
		return g.keyError(keyAlignment, nil, "it is %v; it must be an uint32 that is a power of two up to %d", v, maxAlignment)
	}
	return g.realign(int64(v.Uint()), func() error { return ggufSet(g.core.ctx, keyAlignment, v) })
}

// realign runs change, which sets the alignment to the given one.
func (g *GGUF) realign(alignment int64, change func() error) error {
	ctx := g.core.ctx
	if int64(C.gguf_get_alignment(ctx)) == alignment {
		return change()
	}
	if C.gguf_get_n_tensors(ctx) > 0 {
		return g.keyError(keyAlignment, nil, "the alignment cannot change to %d once there are tensors; set it first", alignment)
	}
	if err := change(); err != nil {
		return err
	}
	aligned, err := ggufParse(ctx)
	if err != nil {
		return err
	}
	C.gguf_free(ctx)
	g.core.ctx = aligned
	return nil
}

// Remove removes a key. Removing an absent key is not an error. C: gguf_remove_key.
func (g *GGUF) Remove(key string) error {
	g = made(g)
	return g.with(func(ctx *C.struct_gguf_context) error {
		if hasNUL(key) {
			return nil
		}
		remove := func() error {
			return withCString(key, func(s *C.char) error { return guardError(C.goggml_gguf_remove(ctx, s)) })
		}
		delete(g.exact, key)
		if key == keyAlignment {
			return g.realign(defaultAlignment, remove)
		}
		return remove()
	})
}

// CopyKeys sets all keys of another GGUF. C: gguf_set_kv.
func (g *GGUF) CopyKeys(from *GGUF) error {
	g = made(g)
	if from == nil {
		return errNilGGUF
	}
	keys, err := from.copyKeys()
	if err != nil {
		return err
	}
	defer C.gguf_free(keys)
	return g.with(func(ctx *C.struct_gguf_context) error {
		set := func() error {
			if err := guardError(C.goggml_gguf_set_kv(ctx, keys)); err != nil {
				return err
			}
			for i := range C.gguf_get_n_kv(keys) {
				delete(g.exact, C.GoString(C.gguf_get_key(keys, i)))
			}
			return nil
		}
		if ggufFindKey(keys, keyAlignment) < 0 {
			return set()
		}
		return g.realign(int64(C.gguf_get_alignment(keys)), set)
	})
}

// copyKeys returns a copy of all keys, which the caller frees. Without a copy, two GGUFs would have
// to be locked at once.
func (g *GGUF) copyKeys() (keys *C.struct_gguf_context, err error) {
	err = g.with(func(ctx *C.struct_gguf_context) error {
		for key := range g.exact {
			return g.keyError(key, nil, "a string holds a NUL byte, which ggml cannot copy; remove the key first")
		}
		keys, err = ggufParse(ctx)
		return err
	})
	return keys, err
}

// ggufParse copies the metadata by writing it and reading it back.
func ggufParse(ctx *C.struct_gguf_context) (*C.struct_gguf_context, error) {
	header, err := ggufMeta(ctx)
	if err != nil {
		return nil, err
	}
	r := C.goggml_gguf_read(unsafe.Pointer(&header[0]), C.size_t(len(header)), maxBytes)
	if err := guardError(r.error); err != nil {
		return nil, err
	}
	if r.value == nil {
		return nil, errors.New("ggml: the header that was written is refused")
	}
	return (*C.struct_gguf_context)(r.value), nil
}

// NumKeys returns the number of keys. C: gguf_get_n_kv.
func (g *GGUF) NumKeys() int {
	g = made(g)
	return int(g.number(func(ctx *C.struct_gguf_context) int64 { return int64(C.gguf_get_n_kv(ctx)) }))
}

// Keys iterates over the keys and their values, of the types of [GGUF.Value], in the order of the
// file; it yields none if the GGUF is closed. C: gguf_get_key.
func (g *GGUF) Keys() iter.Seq2[string, any] {
	g = made(g)
	return func(yield func(string, any) bool) {
		for id := range g.NumKeys() {
			var key string
			var value any
			err := g.with(func(ctx *C.struct_gguf_context) (err error) {
				if int64(id) < int64(C.gguf_get_n_kv(ctx)) {
					key, value, err = g.valueAt(ctx, C.int64_t(id))
				}
				return err
			})
			if err != nil || key == "" || !yield(key, value) {
				return
			}
		}
	}
}
