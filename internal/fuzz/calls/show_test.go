//go:build linux && cgo

package calls

import (
	"fmt"
	"reflect"
	"strings"
)

// describe prints arguments on one line without calling their methods, which are under test. A result of a call
// is printed as that call's number.
func (p *pool) describe(args []reflect.Value) string {
	var list []string
	for _, a := range args {
		list = append(list, p.show(a, 0))
	}
	text := strings.Join(list, ", ")
	if len(text) > 1500 {
		text = text[:1500] + "…"
	}
	return text
}

func (p *pool) show(v reflect.Value, depth int) string {
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
		return p.show(v.Elem(), depth)
	case reflect.Pointer:
		if v.IsNil() {
			return "nil " + v.Type().String()
		}
		if name := p.name(v.Pointer()); name != "" {
			return name
		}
		return "new " + v.Type().String()
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Len() > 0 {
			if name := p.name(v.Pointer()); name != "" {
				return name
			}
		}
		if depth > 2 {
			return v.Type().String()
		}
		var items []string
		for i := range min(v.Len(), 4) {
			items = append(items, p.show(v.Index(i), depth+1))
		}
		return fmt.Sprintf("%s(%d){%s}", v.Type(), v.Len(), strings.Join(items, ", "))
	case reflect.Struct:
		if depth > 2 {
			return v.Type().String()
		}
		var fields []string
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !v.Field(i).IsZero() {
				fields = append(fields, v.Type().Field(i).Name+": "+p.show(v.Field(i), depth+1))
			}
		}
		return v.Type().String() + "{" + strings.Join(fields, ", ") + "}"
	}
	if v.Kind() == reflect.Func && v.IsNil() || v.Kind() == reflect.Map && v.IsNil() {
		return "nil"
	}
	return v.Type().String()
}
