package quantize

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/filelink"
)

// An Importance has the weight of each column of a matrix, by the matrix's name: the mean square of the activations
// that it was multiplied by. Quantising minimises the error weighted by it.
type Importance map[string][]float32

// ReadImportance reads a file of llama-imatrix, GGUF or the older .dat.
func ReadImportance(path string) (Importance, error) {
	file, _, err := filelink.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	start := make([]byte, 4)
	if _, err := io.ReadFull(file, start); err != nil {
		return nil, fmt.Errorf("%s: is not an importance matrix: it is shorter than 4 bytes", path)
	}
	var i Importance
	if string(start) == "GGUF" {
		i, err = readImportanceGGUF(path)
	} else {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		i, err = readImportanceDat(file)
	}
	if err == nil {
		err = i.check()
	}
	if err != nil {
		return nil, fmt.Errorf("importance matrix %s: %w", path, err)
	}
	return i, nil
}

// check validates the importance as quantising requires.
func (i Importance) check() error {
	if len(i) == 0 {
		return errors.New("it has no entries")
	}
	for name, values := range i {
		for _, v := range values {
			if v-v != 0 || v < 0 {
				return fmt.Errorf("%s has the value %v; values must be finite and at least 0", name, v)
			}
		}
	}
	return nil
}

const (
	suffixSums   = ".in_sum2" // sums of squares, by column
	suffixCounts = ".counts"  // numbers of summed rows
)

func readImportanceGGUF(path string) (Importance, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if kind, err := ggml.GGUFValue[string](g, "general.type"); err != nil || kind != "imatrix" {
		return nil, errors.New(`the key general.type is not "imatrix": llama-imatrix makes such files`)
	}
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return nil, err
	}
	c := ggml.NewContext()
	defer c.Close()
	buffers, err := g.Load(c, cpu, ggml.LoadOptions{NoMmap: true})
	if err != nil {
		return nil, err
	}
	defer buffers.Close()
	tensors := map[string]*ggml.Tensor{}
	for t := range c.Tensors() {
		tensors[t.Name()] = t
	}
	i := Importance{}
	for name, sums := range tensors {
		base, ok := strings.CutSuffix(name, suffixSums)
		if !ok {
			continue
		}
		counts := tensors[base+suffixCounts]
		if counts == nil {
			return nil, fmt.Errorf("%s%s is missing", base, suffixCounts)
		}
		if i[base], err = means(sums, counts); err != nil {
			return nil, fmt.Errorf("%s: %w", base, err)
		}
	}
	return i, nil
}

// means divides sums by the number of rows. If the number is 0, all columns count the same.
func means(sums, counts *ggml.Tensor) ([]float32, error) {
	values, err := sums.Float32s()
	if err != nil {
		return nil, err
	}
	n, err := counts.Float32s()
	if err != nil {
		return nil, err
	}
	if len(n) == 0 || len(values)%len(n) != 0 {
		return nil, fmt.Errorf("there are %d sums for %d counts", len(values), len(n))
	}
	columns := len(values) / len(n)
	for k := range values {
		if count := n[k/columns]; count > 0 {
			values[k] /= count
		} else {
			values[k] = 1
		}
	}
	return values, nil
}

// readImportanceDat reads the older format: a number of entries, each with its name, a number of calls, and the sums
// divided by that number.
func readImportanceDat(file io.Reader) (Importance, error) {
	r := bufio.NewReader(file)
	number := func() (n int32, err error) {
		err = binary.Read(r, binary.LittleEndian, &n)
		return n, err
	}
	const most = 1 << 24 // limit of the numbers of entries, of a name's bytes and of columns
	count, err := number()
	if err != nil || count < 1 || count > most {
		return nil, errors.New("is neither GGUF nor the older format of llama-imatrix")
	}
	i := Importance{}
	for range count {
		length, err := number()
		if err != nil || length < 1 || length > most {
			return nil, errors.New("is damaged or cut short: an entry has no name")
		}
		name := make([]byte, length)
		if _, err := io.ReadFull(r, name); err != nil {
			return nil, errors.New("is cut short")
		}
		calls, err := number()
		if err != nil {
			return nil, errors.New("is cut short")
		}
		columns, err := number()
		if err != nil || columns < 1 || columns > most {
			return nil, fmt.Errorf("is damaged or cut short: %q has no columns", name)
		}
		values := make([]float32, columns)
		if err := binary.Read(r, binary.LittleEndian, values); err != nil {
			return nil, errors.New("is cut short")
		}
		for k := range values {
			values[k] /= float32(max(1, calls))
		}
		i[string(name)] = values
	}
	return i, nil
}
