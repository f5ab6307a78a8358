package jinja

import (
	"math"
	"slices"
	"strings"
)

// tryAttribute returns what Python's getattr would: methods, and attributes of objects that templates know.
func (s *state) tryAttribute(of Value, name string) (Value, bool) {
	switch v := of.(type) {
	case Text:
		if stringMethods[name] != nil {
			return &method{of, name}, true
		}
	case *Dict:
		if dictMethods[name] != nil {
			return &method{of, name}, true
		}
		if slices.Contains([]string{"clear", "pop", "popitem", "setdefault", "update"}, name) {
			return forbidden(of, name), true
		}
	case *Sequence:
		return v.attribute(name)
	case *namespace:
		return v.attributes.Get(name)
	case *loopState:
		return v.attribute(name)
	case *macro:
		return v.attribute(name)
	case float64:
		if name == "is_integer" {
			return &function{name, func(*state, *arguments) Value { return v == math.Trunc(v) && !math.IsInf(v, 0) }}, true
		}
	}
	if strings.HasPrefix(name, "__") && slices.Contains([]string{"__class__", "__init__", "__dict__", "__doc__"}, name) {
		return forbidden(of, name), true
	}
	return nil, false
}

// forbidden returns the undefined value for an attribute that Jinja's sandbox blocks.
func forbidden(of Value, name string) Value {
	return &undefined{"access to attribute '" + name + "' of '" + TypeName(of) + "' object", true}
}
