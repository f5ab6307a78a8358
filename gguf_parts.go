package ggml

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/goggml/ggml/internal/filelink"
)

// The keys of one file of a split model, as llama.cpp writes them.
const (
	keySplitNo      = "split.no"            // uint16, from 0
	keySplitCount   = "split.count"         // uint16
	keySplitTensors = "split.tensors.count" // int32, total of all parts
)

// splitSuffix returns the end of the file name of part no, from 0.
func splitSuffix(no, count int) string { return fmt.Sprintf("-%05d-of-%05d.gguf", no+1, count) }

// NumParts returns the number of files: 1 for a file that is not split, 0 for a new GGUF.
func (g *GGUF) NumParts() int {
	g = made(g)
	return len(g.parts)
}

// Paths returns the paths of the files, the first part first.
func (g *GGUF) Paths() []string {
	g = made(g)
	var paths []string
	for _, p := range g.parts {
		paths = append(paths, p.name)
	}
	return paths
}

// join adds the other parts of a split model to the first part.
func (g *GGUF) join() error {
	no, count, err := g.splitNumbers()
	if err != nil || count <= 1 {
		return err
	}
	prefix, ok := strings.CutSuffix(g.name, splitSuffix(no, count))
	switch {
	case !ok:
		return &FileError{Path: g.name, Reason: fmt.Sprintf("is part %d of %d of a model, and its name must end in %q for the others to be found; rename it", no+1, count, splitSuffix(no, count))}
	case no != 0:
		return &FileError{Path: g.name, Reason: fmt.Sprintf("is part %d of %d of a model; open the first, %s", no+1, count, filepath.Base(prefix+splitSuffix(0, count)))}
	}
	for no := 1; no < count; no++ {
		if err := g.joinPart(prefix+splitSuffix(no, count), no, count); err != nil {
			return err
		}
	}
	return g.joined()
}

// splitNumbers returns the part's number, from 0, and the number of parts; 0 if the file is not
// split.
func (g *GGUF) splitNumbers() (no, count int, err error) {
	count, err = GGUFValue[int](g, keySplitCount)
	if err != nil {
		if errors.Is(err, ErrKeyNotFound) {
			err = nil
		}
		return 0, 0, err
	}
	no, err = GGUFValue[int](g, keySplitNo)
	if err == nil && (no < 0 || no >= max(count, 1) || count > math.MaxUint16) {
		err = &FileError{Path: g.name, Reason: fmt.Sprintf("claims to be part %d of %d: it is damaged; download it again", no+1, count)}
	}
	return no, count, err
}

func (g *GGUF) joinPart(path string, no, count int) error {
	p, err := OpenGGUFPart(path)
	if errors.Is(err, os.ErrNotExist) {
		return &FileError{Path: g.name, Reason: fmt.Sprintf("is the first part of %d, and part %d is missing; get %s too", count, no+1, filepath.Base(path)), Err: err}
	}
	if err != nil {
		return err
	}
	defer p.Close()
	if n, c, err := p.splitNumbers(); err != nil {
		return err
	} else if n != no || c != count {
		return &FileError{Path: path, Reason: fmt.Sprintf("is part %d of %d of a model, and by its name part %d of %d; download it again", n+1, c, no+1, count)}
	}
	for t := range p.Tensors() {
		if _, there := g.data[t.Name]; there {
			return &FileError{Path: path, Reason: fmt.Sprintf("has the tensor %q, which another part has too; download them again", t.Name)}
		}
		if err := g.add(t, p.data[t.Name]); err != nil {
			return err
		}
	}
	g.parts = append(g.parts, p.parts...)
	g.core.files, p.core.files = append(g.core.files, p.core.files...), nil
	return nil
}

// joined checks the number of tensors, and removes the keys of a part.
func (g *GGUF) joined() error {
	want, err := GGUFValue[int](g, keySplitTensors)
	if err == nil && want != g.NumTensors() {
		err = &FileError{Path: g.name, Reason: fmt.Sprintf("the parts have %d tensors instead of %d: one is damaged, or of another model; download them again", g.NumTensors(), want)}
	}
	if err != nil && !errors.Is(err, ErrKeyNotFound) {
		return err
	}
	for _, key := range []string{keySplitNo, keySplitCount, keySplitTensors} {
		if err := g.Remove(key); err != nil {
			return err
		}
	}
	return nil
}

// PartOptions select how [GGUF.WriteParts] divides the tensors, which keep their order. The zero
// value writes one file.
type PartOptions struct {
	MaxBytes   int64 // of data per file, with padding; a larger tensor gets a file of its own
	MaxTensors int   // per file
	KeysFirst  bool  // the first file contains only keys, so that they can be changed cheaply
}

// WriteParts writes the model as files prefix-00001-of-0000N.gguf, and returns their paths.
// [OpenGGUF] of the first file, and llama.cpp, read them as one. The first file contains all keys.
// The files get their names after all are written; after an error no file is left over, and an
// older model's files of the same names are unchanged.
func (g *GGUF) WriteParts(prefix string, o PartOptions) ([]string, error) {
	g = made(g)
	if o.MaxBytes < 0 || o.MaxTensors < 0 {
		return nil, &FileError{Path: prefix, Reason: fmt.Sprintf("cannot be written: at most %d bytes and %d tensors in a file; neither may be negative", o.MaxBytes, o.MaxTensors)}
	}
	if err := g.h.acquire(); err != nil {
		return nil, err
	}
	defer g.h.release()
	list, err := g.tensorList()
	if err != nil {
		return nil, err
	}
	groups := o.divide(list, g.Alignment())
	if len(groups) > math.MaxUint16 {
		return nil, &FileError{Path: prefix, Reason: fmt.Sprintf("cannot be written: there would be %d files, and %d are possible", len(groups), math.MaxUint16)}
	}
	var pending []*filelink.Pending
	defer func() {
		for _, f := range pending {
			f.Discard()
		}
	}()
	var paths []string
	for no, tensors := range groups {
		path := prefix + splitSuffix(no, len(groups))
		f, err := g.writePart(path, no, len(groups), len(list), tensors)
		if err != nil {
			return nil, writeError(err)
		}
		pending, paths = append(pending, f), append(paths, path)
	}
	if err := filelink.CommitAll(pending); err != nil {
		return nil, writeError(err)
	}
	return paths, nil
}

// divide returns the tensors of each file.
func (o PartOptions) divide(list []GGUFTensor, alignment int64) [][]GGUFTensor {
	groups := [][]GGUFTensor{nil}
	if o.KeysFirst {
		groups = append(groups, nil)
	}
	var bytes int64 // size of the last group
	for _, t := range list {
		last := len(groups) - 1
		size := padded(t.Size, alignment)
		full := o.MaxBytes > 0 && bytes+size > o.MaxBytes || o.MaxTensors > 0 && len(groups[last]) == o.MaxTensors
		if full && len(groups[last]) > 0 {
			groups, bytes = append(groups, nil), 0
			last++
		}
		groups[last] = append(groups[last], t)
		bytes += size
	}
	return groups
}

// writePart writes a file under a temporary name.
func (g *GGUF) writePart(path string, no, count, total int, tensors []GGUFTensor) (*filelink.Pending, error) {
	p, err := NewGGUF()
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.partKeys(g, no, count, total); err != nil {
		return nil, err
	}
	for _, t := range tensors {
		if err := p.CopyTensor(g, t.Name); err != nil {
			return nil, err
		}
	}
	return filelink.Pend(path, p.writeWhole)
}

func (g *GGUF) partKeys(of *GGUF, no, count, total int) error {
	if no == 0 {
		if err := g.CopyKeys(of); err != nil {
			return err
		}
	} else if alignment := of.Alignment(); alignment != defaultAlignment {
		if err := g.Set(keyAlignment, uint32(alignment)); err != nil {
			return err
		}
	}
	// In the order of llama.cpp's own program.
	return errors.Join(g.Set(keySplitNo, uint16(no)), g.Set(keySplitTensors, int32(total)), g.Set(keySplitCount, uint16(count)))
}
