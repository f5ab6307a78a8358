package jinja

import "math/big"

// A Value is a Python value: nil (None), bool, int64, *big.Int (beyond 64 bits), float64, Text, *Sequence, *generator,
// *Dict, *namespace, *undefined, *loopState, *method, *macro or function.
type Value any

// undefined is the value of an unknown name. Most operations on it are errors.
type undefined struct {
	what   string // description for errors
	unsafe bool   // an attribute that the sandbox blocks
}

func isType[T any](v Value) bool {
	_, ok := v.(T)
	return ok
}

// truth is Python's bool().
func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case Text:
		return v.s != ""
	case *Sequence:
		return len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	case *undefined:
		return false
	}
	return true
}

// TypeName returns the name of the value's Python type.
func TypeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case Text:
		return "str"
	case *Sequence:
		return sequenceNames[v.kind]
	case *generator:
		return "generator"
	case *Dict:
		return "dict"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loopState:
		return "LoopContext"
	}
	return "function"
}
