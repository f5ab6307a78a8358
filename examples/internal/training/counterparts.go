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
	read := func(flag string, sources []string) (map[data.Origin]counterpart, error) {
		d, err := other.read(ctx, s, flag, sources)
		if err != nil {
			return nil, err
		}
		c.loaded, c.key = append(c.loaded, d), c.key+" "+d.Data.Fingerprint()
		return byOrigin(d.Data)
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
	if f.ValidSplit == 0 {
		if theirs, err = read("--valid-data", f.validSources()); err != nil {
			return c, err
		}
	}
	return c, c.add(sets.Valid, theirs)
}

// byOrigin returns the places of a data set's samples by their records. Records that share a line, as in a JSON list, cannot be
// told apart: their place has no data set.
func byOrigin(d *data.Dataset) (map[data.Origin]counterpart, error) {
	places := map[data.Origin]counterpart{}
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return nil, err
		}
		at := counterpart{d, i}
		if _, shared := places[row[0].Origin]; shared {
			at.of = nil
		}
		places[row[0].Origin] = at
	}
	return places, nil
}

// add finds the counterparts of a data set's samples.
func (c *Counterparts) add(d *data.Dataset, theirs map[data.Origin]counterpart) error {
	for i := range d.Len() {
		row, err := d.Row(i)
		if err != nil {
			return err
		}
		for _, x := range row {
			if at := theirs[x.Origin]; at.of != nil {
				c.of[x.Hash()] = at
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
