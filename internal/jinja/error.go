package jinja

import "fmt"

// Error is a fault of a template, or of what was given to it.
type Error struct {
	Template string // the name that was given to Parse
	Line     int    // from 1
	Reason   string
}

// Error has the template, the line and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.Template, e.Line, e.Reason) }

// fail leaves the parser or the evaluator; catch, at their doors, turns it into an error. As in text/template, a panic
// of this type never leaves the package.
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
