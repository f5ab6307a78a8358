package jinja

import "math/big"

// A Value is one of Python's: nil (None), bool, int64, *big.Int (beyond 64 bits), float64, Text, *Sequence, *generator,
// *Dict, *namespace, *undefined, *loopState, *method, *macro or function.
type Value any

// undefined is the value of an unknown name. Most operations on it are errors.
type undefined struct {
	what   string // as an error says it
	unsafe bool   // an attribute that the sandbox keeps from templates
}

func isType[T any](v Value) bool {
	_, ok := v.(T)
	return ok
}

// truth is bool() of Python's.
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

// TypeName is the name of the type in Python.
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
