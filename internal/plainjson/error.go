// Package plainjson translates errors of package json from Go's types to the terms of JSON.
package plainjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Unmarshal is [json.Unmarshal] with errors in the terms of JSON.
func Unmarshal(text []byte, to any) error { return Error(json.Unmarshal(text, to)) }

// Error translates an error of package json to the terms of JSON: which value has the wrong kind, and which
// kind is expected.
func Error(err error) error {
	wrong := (*json.UnmarshalTypeError)(nil)
	if !errors.As(err, &wrong) {
		return err
	}
	field := ""
	if wrong.Field != "" {
		field = wrong.Field + ": "
	}
	kind, number, isNumber := strings.Cut(wrong.Value, " ")
	switch {
	case isNumber:
		return fmt.Errorf("%sit is %s, but must be %s", field, number, expected(wrong.Type))
	case kind == "bool":
		kind = "true or false"
	case kind == "array" || kind == "object":
		kind = "an " + kind
	default:
		kind = "a " + kind
	}
	return fmt.Errorf("%sit is %s, but must be %s", field, kind, expected(wrong.Type))
}

// expected returns the JSON values that fit a type.
func expected(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Map, reflect.Struct:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return fmt.Sprintf("a number that fits into %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number of at least 0 that fits into %d bits", t.Bits())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("a whole number that fits into %d bits", t.Bits())
	}
	return "another value"
}
