package cli

import (
	"encoding/json"
	"io"
)

// WriteLines writes values as lines of JSON.
func WriteLines[T any](w io.Writer, list []T) error {
	lines := json.NewEncoder(w)
	for _, value := range list {
		if err := lines.Encode(value); err != nil {
			return err
		}
	}
	return nil
}
