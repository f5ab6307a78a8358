package data

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"slices"
)

// A report is the part of a token file about examples that is not numbers: the skipped records and the
// notes.
type report struct {
	Skipped []BrokenCount
	Notes   []NoteCount
}

// encode encodes a report for a token file: as gob, because strings such as file names may contain any
// bytes. It omits the causes of errors, whose texts are part of the reasons.
func (r report) encode() ([]byte, error) {
	if len(r.Skipped)+len(r.Notes) == 0 {
		return nil, nil
	}
	r.Skipped = slices.Clone(r.Skipped)
	for i, c := range r.Skipped {
		first := *c.First
		first.Err = nil
		r.Skipped[i].First = &first
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(r)
	return b.Bytes(), err
}

// decodeReport decodes a report.
func decodeReport(from io.Reader) (r report, err error) {
	err = gob.NewDecoder(from).Decode(&r)
	if err != nil && err != io.EOF { // no bytes mean an empty report
		return report{}, fmt.Errorf("its report on the records cannot be read: %w", err)
	}
	return r, nil
}
