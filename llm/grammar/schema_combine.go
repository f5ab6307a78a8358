package grammar

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
)

// maxAlternatives bounds the alternatives of a schema, which multiply where schemas are combined.
const maxAlternatives = 256

// annotations are keywords that say nothing about values.
var annotations = []string{"$schema", "$id", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$anchor", "format"}

// assertions are keywords that this package knows to restrict values.
var assertions = slices.Concat(unsupported, boundsOfNumbers, []string{
	"$ref", "allOf", "anyOf", "oneOf", "type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems",
	"pattern", "minLength", "maxLength",
})

var boundsOfNumbers = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}

// restricts reports whether a schema says anything about values.
func restricts(o *object) bool {
	return slices.ContainsFunc(assertions, o.has) || knownFormat(o) != ""
}

// without returns a copy of a schema without keywords.
func without(o *object, keys ...string) *object {
	copied := newObject()
	for _, key := range o.keys {
		if !slices.Contains(keys, key) {
			copied.set(key, o.values[key])
		}
	}
	return copied
}

// alternatives returns schemas; a value is valid if it fits one of them. They have neither allOf, anyOf nor oneOf, or are parts
// of the schema, unchanged; a schema without these is its own alternative.
func (w *schemaWriter) alternatives(o *object, path string) ([]any, error) {
	base := without(o, "allOf", "anyOf", "oneOf", "$ref")
	if len(base.keys) == len(o.keys) {
		return []any{o}, nil
	}
	var groups [][]any // a value has one schema of each
	if o.has("$ref") {
		groups = append(groups, []any{newRef(o.values["$ref"])})
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		if !o.has(key) {
			continue
		}
		list, is := o.values[key].([]any)
		if !is || len(list) == 0 {
			return nil, fmt.Errorf("%s: %s must be a list of schemas", at(path), key)
		}
		if key != "allOf" {
			groups = append(groups, list)
			continue
		}
		for _, schema := range list {
			groups = append(groups, []any{schema})
		}
	}
	if !restricts(base) && len(groups) == 1 {
		return groups[0], nil
	}
	all := []any{base}
	for _, group := range groups {
		var joined []any
		for _, a := range all {
			for _, b := range group {
				more, err := w.both(a, b, path)
				if err != nil {
					return nil, err
				}
				if joined = append(joined, more...); len(joined) > maxAlternatives {
					return nil, fmt.Errorf("%s: its combinations have more than %d alternatives", at(path), maxAlternatives)
				}
			}
		}
		all = joined
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no value satisfies all of its schemas", at(path))
	}
	return all, nil
}

func newRef(to any) *object {
	o := newObject()
	o.set("$ref", to)
	return o
}

// both returns the alternatives of values that have two schemas. The first one is an alternative already.
func (w *schemaWriter) both(a, b any, path string) ([]any, error) {
	if err := w.count(); err != nil {
		return nil, err
	}
	if b == true {
		return []any{a}, nil
	}
	o, is := b.(*object)
	if !is {
		return nil, fmt.Errorf("%s is combined with %s; that must be an object or true", at(path), writeJSON(b))
	}
	if o.has("$ref") && !restricts(without(o, "$ref")) {
		_, target, err := w.resolve(o.values["$ref"], path)
		if err != nil {
			return nil, err
		}
		return w.both(a, target, path)
	}
	parts, err := w.alternatives(o, path)
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && parts[0] == b {
		merged, err := merge(a.(*object), o, path)
		if merged == nil || err != nil {
			return nil, err
		}
		return []any{merged}, nil
	}
	var all []any
	for _, part := range parts {
		more, err := w.both(a, part, path)
		if err != nil {
			return nil, err
		}
		if all = append(all, more...); len(all) > maxAlternatives {
			return nil, fmt.Errorf("%s: its combinations have more than %d alternatives", at(path), maxAlternatives)
		}
	}
	return all, nil
}

// merge returns the schema of values that have both, nil if there are none.
func merge(a, b *object, path string) (*object, error) {
	m := without(a, "properties", "required", "additionalProperties", "enum", "const", "type")
	for _, key := range b.keys {
		value := b.values[key]
		switch {
		case slices.Contains([]string{"properties", "required", "additionalProperties", "enum", "const", "type"}, key):
		case !m.has(key) || slices.Contains(annotations, key) && key != "format":
			m.set(key, value)
		case writeJSON(m.values[key]) == writeJSON(value):
		default:
			bound, is := stricter(key, m.values[key], value)
			if !is {
				return nil, fmt.Errorf("%s: two schemas of the same values both have %s; that is unsupported", at(path), key)
			}
			m.set(key, bound)
		}
	}
	if possible, err := mergeTypes(m, a, b, path); err != nil || !possible {
		return nil, err
	}
	if possible, err := mergeEnums(m, a, b, path); err != nil || !possible {
		return nil, err
	}
	return m, mergeProperties(m, a, b, path)
}

// stricter returns the stricter of two bounds.
func stricter(key string, x, y any) (bound any, is bool) {
	p, isX := number(x)
	q, isY := number(y)
	isMin := strings.HasPrefix(key, "min") || key == "exclusiveMinimum"
	if !isX || !isY || !isMin && !strings.HasPrefix(key, "max") && key != "exclusiveMaximum" {
		return nil, false
	}
	if (p >= q) == isMin {
		return x, true
	}
	return y, true
}

// number returns the value of a JSON number.
func number(value any) (float64, bool) {
	text, is := value.(json.Number)
	x, err := text.Float64()
	return x, is && err == nil
}

func mergeTypes(m, a, b *object, path string) (possible bool, err error) {
	switch {
	case !a.has("type") && !b.has("type"):
		return true, nil
	case !a.has("type"):
		m.set("type", b.values["type"])
		return true, nil
	case !b.has("type"):
		m.set("type", a.values["type"])
		return true, nil
	}
	x, err := typesOf(a, path)
	if err != nil {
		return false, err
	}
	y, err := typesOf(b, path)
	if err != nil {
		return false, err
	}
	var both []any
	for _, kind := range []string{"object", "array", "string", "integer", "number", "boolean", "null"} {
		has := func(list []string) bool {
			return slices.Contains(list, kind) || kind == "integer" && slices.Contains(list, "number")
		}
		if has(x) && has(y) {
			both = append(both, kind)
		}
	}
	if slices.Contains(both, any("number")) { // of which integers are some
		both = slices.DeleteFunc(both, func(kind any) bool { return kind == "integer" })
	}
	m.set("type", both)
	return len(both) > 0, nil
}

func mergeEnums(m, a, b *object, path string) (possible bool, err error) {
	isEnum := func(o *object) bool { return o.has("enum") || o.has("const") }
	if !isEnum(a) && !isEnum(b) {
		return true, nil
	}
	var values []any
	switch {
	case !isEnum(a):
		values, err = enumOf(b, path)
	case !isEnum(b):
		values, err = enumOf(a, path)
	default:
		var x, y []any
		if x, err = enumOf(a, path); err == nil {
			y, err = enumOf(b, path)
		}
		for _, v := range x {
			if slices.ContainsFunc(y, func(u any) bool { return writeJSON(u) == writeJSON(v) }) {
				values = append(values, v)
			}
		}
	}
	m.set("enum", values)
	return len(values) > 0, err
}

// mergeProperties combines objects: a property of both has both schemas, and one that either excludes is left out.
func mergeProperties(m, a, b *object, path string) error {
	x, err := propertiesOf(a, path)
	if err != nil {
		return err
	}
	y, err := propertiesOf(b, path)
	if err != nil {
		return err
	}
	excludes := func(o *object, properties *object, name string) bool {
		return o.values["additionalProperties"] == false && !properties.has(name)
	}
	properties := newObject()
	for _, of := range []*object{x, y} {
		for _, name := range of.keys {
			switch {
			case excludes(a, x, name) || excludes(b, y, name):
			case !x.has(name) || !y.has(name):
				properties.set(name, of.values[name])
			case writeJSON(x.values[name]) == writeJSON(y.values[name]):
				properties.set(name, x.values[name])
			default:
				both := newObject()
				both.set("allOf", []any{x.values[name], y.values[name]})
				properties.set(name, both)
			}
		}
	}
	if a.has("properties") || b.has("properties") {
		m.set("properties", properties)
	}
	var required []any
	for _, o := range []*object{a, b} {
		list, _ := o.values["required"].([]any)
		required = append(required, list...)
	}
	if required != nil {
		m.set("required", required)
	}
	switch s, t := a.values["additionalProperties"], b.values["additionalProperties"]; {
	case s == false || t == false:
		m.set("additionalProperties", false)
	case s != nil && t != nil && writeJSON(s) != writeJSON(t):
		both := newObject()
		both.set("allOf", []any{s, t})
		m.set("additionalProperties", both)
	case s != nil:
		m.set("additionalProperties", s)
	case t != nil:
		m.set("additionalProperties", t)
	}
	return nil
}

// typesOf returns the types that a schema names or, without any, the types that its keywords belong to.
func typesOf(o *object, path string) ([]string, error) {
	wrong := fmt.Errorf("%s: type is %s; it must be a text or a list of texts", at(path), writeJSON(o.values["type"]))
	switch v := o.values["type"].(type) {
	case string:
		return []string{v}, nil
	case []any:
		var types []string
		for _, x := range v {
			kind, is := x.(string)
			if !is {
				return nil, wrong
			}
			types = append(types, kind)
		}
		if len(types) > 0 {
			return types, nil
		}
		return nil, wrong
	}
	switch has := func(keys ...string) bool { return slices.ContainsFunc(keys, o.has) }; {
	case o.has("type"):
		return nil, wrong
	case has("properties", "required", "additionalProperties"):
		return []string{"object"}, nil
	case has("items", "prefixItems", "minItems", "maxItems"):
		return []string{"array"}, nil
	case has("pattern", "minLength", "maxLength") || knownFormat(o) != "":
		return []string{"string"}, nil
	case has(boundsOfNumbers...):
		return []string{"number"}, nil
	}
	return []string{"object", "array", "string", "number", "boolean", "null"}, nil
}

func enumOf(o *object, path string) ([]any, error) {
	values := []any{o.values["const"]}
	if o.has("enum") {
		list, is := o.values["enum"].([]any)
		if !is || len(list) == 0 {
			return nil, fmt.Errorf("%s: enum must be a list of values", at(path))
		}
		if !o.has("const") {
			values = slices.Clone(list)
		} else if !slices.ContainsFunc(list, func(v any) bool { return writeJSON(v) == writeJSON(values[0]) }) {
			values = nil
		}
	}
	return values, nil
}

// hasType reports whether a value has a type.
func hasType(value any, kind string) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case []any:
		return kind == "array"
	case *object:
		return kind == "object"
	case json.Number:
		x, is := number(v)
		return kind == "number" || kind == "integer" && is && x == math.Trunc(x)
	}
	return false
}

func unescapePercent(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}
