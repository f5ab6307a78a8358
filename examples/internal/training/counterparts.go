package training

import (
	"context"
	"fmt"
	"slices"

	"github.com/goggml/ggml/llm/data"
)

// Counterparts are the conversations of a run's data as another model, such as a teacher, writes them: in its vocabulary,
// by its own chat template.
type Counterparts struct {
	of     map[[16]byte]counterpart // by [data.Sample.Hash]
	loaded []*data.Loaded
	key    string
}

type counterpart struct {
	of  *data.Dataset
	row int
}

// Counterparts reads the data of the sets again for another model.
func (f *DataFlags) Counterparts(ctx context.Context, s Source, sets *Sets) (c *Counterparts, err error) {
	for _, source := range slices.Concat(f.TrainData, f.validSources()) {
		if data.IsPipe(source) {
			return nil, fmt.Errorf("it has another vocabulary and reads the records a second time, and the pipe %q can be read once; give a file", source)
		}
	}
	other := *f
	other.Ctx, other.ChatTemplate, other.Template, other.TooLong, other.quiet = s.Context, "", "", string(data.CutLong), true
	c = &Counterparts{of: map[[16]byte]counterpart{}}
	read := func(flag string, sources []string) (*data.Dataset, error) {
		d, err := other.read(ctx, s, flag, sources)
		if err != nil {
			return nil, err
		}
		c.loaded, c.key = append(c.loaded, d), c.key+" "+d.Data.Fingerprint()
		return d.Data, nil
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	theirs, err := read(trainFlag, f.TrainData)
	if err != nil {
		return c, err
	}
	if err := c.add(sets.Train, theirs); err != nil || sets.Valid == nil {
		return c, err
	}
	if valid := f.validSources(); f.ValidSplit == 0 {
		if theirs, err = read("--valid-data", valid); err != nil {
			return c, err
		}
	}
	return c, c.add(sets.Valid, theirs)
}

// add finds the counterparts of a data set's samples in another, of the same records. Records that share a line, as in a JSON
// list, cannot be told apart and have none.
func (c *Counterparts) add(d, theirs *data.Dataset) error {
	const none = -1
	rows := map[data.Origin]int{}
	for i := range theirs.Len() {
		row, err := theirs.Row(i)
		if err != nil {
			return err
		}
		if _, shared := rows[row[0].Origin]; shared {
			i = none
		}
		rows[row[0].Origin] = i
	}
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		for _, x := range row {
			if at, has := rows[x.Origin]; has && at != none {
				c.of[x.Hash()] = counterpart{theirs, at}
			}
		}
	}
	return nil
}

// Of returns the counterpart of a sample, if it has one.
func (c *Counterparts) Of(x data.Sample) (own data.Sample, has bool, err error) {
	of, has := c.of[x.Hash()]
	if !has {
		return own, false, nil
	}
	row, err := of.of.Row(of.row)
	if err != nil {
		return own, false, err
	}
	return row[0], true, nil
}

// Key identifies the counterparts by their tokens.
func (c *Counterparts) Key() string {
	if c == nil {
		return ""
	}
	return c.key
}

// Close closes the data files.
func (c *Counterparts) Close() {
	if c == nil {
		return
	}
	for _, d := range c.loaded {
		d.Close()
	}
	c.loaded = nil
}
