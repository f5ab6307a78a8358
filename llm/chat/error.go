package chat

import (
	"errors"
	"fmt"

	"github.com/goggml/ggml/internal/jinja"
)

// Error is a fault of a template, or of what was given to it.
type Error struct {
	Template string // the name that was given to Parse
	Line     int    // from 1
	Reason   string
}

// Error gives the template, the line and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s:%d: %s", e.Template, e.Line, e.Reason) }

// templateError is an error of the template language as one of this package.
func templateError(err error) error {
	var e *jinja.Error
	if errors.As(err, &e) {
		return (*Error)(e)
	}
	return err
}
