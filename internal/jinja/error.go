package jinja

import "fmt"

// Error is an error in a template or in its input.
type Error struct {
	Template string // name passed to Parse
	Line     int    // from 1
	Reason   string
}

// Error returns the template, the line and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.Template, e.Line, e.Reason) }

// fail panics out of the parser or the evaluator; catch, at their entry points, turns the panic into an error. As in
// text/template, a panic of this type never leaves the package.
func fail(name string, line int, format string, args ...any) {
	panic(&Error{name, line, fmt.Sprintf(format, args...)})
}

func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}
