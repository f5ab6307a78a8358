package data

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"slices"
)

// A report is what a token file records about examples beside numbers: the records that were skipped, and the notes on
// others.
type report struct {
	Skipped []BrokenCount
	Notes   []NoteCount
}

// encode writes a report as a token file has it: in gob, because texts may be of any bytes, as names of files are. The
// causes of errors are left out; their texts are in the reasons.
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

// decodeReport reads what encode wrote.
func decodeReport(from io.Reader) (r report, err error) {
	err = gob.NewDecoder(from).Decode(&r)
	if err != nil && err != io.EOF { // no bytes: nothing to report
		return report{}, fmt.Errorf("what it tells of its records cannot be read: %w", err)
	}
	return r, nil
}
