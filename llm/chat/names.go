package chat

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// nameOf returns names[v].
func nameOf[T ~int](v T, names []string) string {
	if v >= 0 && int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", reflect.TypeFor[T]().Name(), int(v))
}

// byName returns the index of name in names. what formats the error, such as "mode %q".
func byName[T ~int](name string, names []string, what string) (T, error) {
	if i := slices.Index(names, name); i >= 0 {
		return T(i), nil
	}
	return 0, fmt.Errorf("there is no "+what+"; use one of %s", name, strings.Join(names, ", "))
}
