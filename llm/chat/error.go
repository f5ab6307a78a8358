package chat

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml/internal/jinja"
)

// Error is an error in a template or in its input.
type Error struct {
	Template string // name passed to Parse
	Line     int    // from 1
	Reason   string
}

// Error returns the template, the line and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.Template, e.Line, e.Reason) }

// templateError converts an error of package jinja to one of this package.
func templateError(err error) error {
	var e *jinja.Error
	if errors.As(err, &e) {
		return (*Error)(e)
	}
	return err
}
