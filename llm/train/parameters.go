package train

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/goggml/ggml"
)

// LoadParameters reads the trained parameters from a checkpoint, without the rest of its run, into F32
// tensors with the same names. It writes all of them, or none if there is an error.
func LoadParameters(path string, params []*ggml.Tensor) error {
	g, err := openCheckpoint(path)
	if err != nil {
		return err
	}
	defer g.Close()
	s := &state{values: map[*ggml.Tensor][]float32{}}
	var differences []Difference
	for _, p := range params {
		if d, differs := compareTensor(g, p.Name(), p); differs {
			differences = append(differences, d)
			continue
		}
		if s.values[p], err = readValues(g, p.Name(), p.NumElements()); err != nil {
			return fmt.Errorf("%s: %w; %s", path, err, remedy)
		}
	}
	if len(differences) > 0 {
		return &MismatchError{path, differences}
	}
	return s.write()
}

// DataOrigin reads the [Options.DataOrigin] of a checkpoint.
func DataOrigin(path string) (map[string]string, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	origin := map[string]string{}
	for key, value := range g.Keys() {
		if name, ok := strings.CutPrefix(key, originKeys); ok {
			origin[name] = fmt.Sprint(value)
		}
	}
	return origin, nil
}

// readValues reads the values of a tensor, and returns an error if one is not finite.
func readValues(g *ggml.GGUF, name string, n int64) ([]float32, error) {
	r, err := g.TensorData(name)
	if err != nil {
		return nil, err
	}
	values := make([]float32, n)
	if err := binary.Read(r, binary.LittleEndian, values); err != nil {
		return nil, err
	}
	if bad, ok := firstNonFinite(values); ok {
		return nil, fmt.Errorf("its tensor %s holds %v", name, bad)
	}
	return values, nil
}
