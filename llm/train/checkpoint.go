package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A checkpoint is a GGUF file with the parameters, the moments of the
// optimiser, the step, the history, and a description of the run, which must
// be the same when it resumes.
const (
	keyType    = "general.type"
	keyFormat  = "training.file_version"
	keyStep    = "training.iteration"
	keyRun     = "training.run"
	formatNow  = uint32(1)
	typeMarker = "checkpoint"
)

// describe lists what decides the result of the run.
func (t *Trainer) describe() (map[string]string, error) {
	o := t.options
	hash := sha256.New()
	for _, s := range t.data.Samples {
		binary.Write(hash, binary.LittleEndian, s.Tokens)
		binary.Write(hash, binary.LittleEndian, s.Weights)
		binary.Write(hash, binary.LittleEndian, int64(-1))
	}
	frozen, err := t.hashFrozen()
	if err != nil {
		return nil, err
	}
	text := func(v any) string {
		b, _ := json.Marshal(v)
		return string(b)
	}
	scales := map[string][]float32{}
	for name, list := range t.adapters {
		for _, d := range list {
			scales[name] = append(scales[name], d.Scale)
		}
	}
	return map[string]string{
		"frozen weights":        frozen,
		"model":                 t.m.Arch + " " + text(t.m.Config),
		"data":                  hex.EncodeToString(hash.Sum(nil)[:16]),
		"context":               text(t.data.Length),
		"schedule":              text(o.Schedule),
		"optimiser":             text(o.AdamW),
		"batch":                 text(o.Batch),
		"gradient accumulation": text(o.Accumulate),
		"seed":                  text(o.Seed),
		"products":              o.ComputeType.String(),
		"adapter scales":        text(scales),
	}, nil
}

// hashFrozen tells what is not trained from others of the same shape. It looks
// at the beginning of each tensor only: a large model is not read to its end.
func (t *Trainer) hashFrozen() (string, error) {
	frozen := map[string][]*ggml.Tensor{}
	add := func(x *ggml.Tensor) {
		if _, trained := t.opt.grad[x]; !trained {
			frozen[x.Name()] = append(frozen[x.Name()], x)
		}
	}
	for w := range t.m.Weights() {
		add(w)
	}
	for _, base := range slices.Sorted(maps.Keys(t.adapters)) {
		for _, d := range t.adapters[base] {
			add(d.A)
			add(d.B)
		}
	}
	const most = 4096
	hash := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(frozen)) {
		for _, x := range frozen[name] {
			fmt.Fprintf(hash, "%s %v ", name, x.Type())
			if _, err := io.Copy(hash, io.NewSectionReader(x, 0, min(most, x.NumBytes()))); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}

// parts names the tensors of a checkpoint: each parameter and its moments.
func (t *Trainer) parts() map[string]*ggml.Tensor {
	parts := map[string]*ggml.Tensor{}
	for i, p := range t.opt.params {
		parts[p.Name()] = p
		parts[p.Name()+".m"] = t.opt.first[i]
		parts[p.Name()+".v"] = t.opt.second[i]
	}
	return parts
}

// SaveCheckpoint writes the state of the run: beside path, and renamed when it
// is complete, so that there is always a whole one.
func (t *Trainer) SaveCheckpoint(path string) error {
	g, err := ggml.NewGGUF()
	if err != nil {
		return err
	}
	defer g.Close()
	run, err := json.Marshal(t.identity)
	if err != nil {
		return err
	}
	keys := []struct {
		key   string
		value any
	}{
		{keyType, typeMarker},
		{"general.architecture", t.m.Arch},
		{keyFormat, formatNow},
		{keyStep, uint32(t.step)},
		{keyRun, string(run)},
	}
	for _, kv := range keys {
		if err := g.Set(kv.key, kv.value); err != nil {
			return err
		}
	}
	if err := t.writeHistory(g); err != nil {
		return err
	}
	parts := t.parts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		p := parts[name]
		info := ggml.GGUFTensor{Name: name, Type: ggml.F32, Shape: p.Shape()}
		err := g.AddTensorFrom(info, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(p, 0, p.NumBytes()))
			return err
		})
		if err != nil {
			return err
		}
	}
	return g.WriteFile(path)
}

// LoadCheckpoint continues the run that wrote the file: the same model, data
// and options, or the error lists what differs. It goes on exactly where that
// run was.
func (t *Trainer) LoadCheckpoint(path string) error {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		return err
	}
	defer g.Close()
	if kind, _ := ggml.GGUFValue[string](g, keyType); kind != typeMarker {
		return fmt.Errorf("%s is no checkpoint: its general.type is %q", path, kind)
	}
	format, err := ggml.GGUFValue[uint32](g, keyFormat)
	if err != nil {
		return err
	}
	if format != formatNow {
		return fmt.Errorf("%s: checkpoint version %d; this program reads version %d", path, format, formatNow)
	}
	if err := t.sameRun(g); err != nil {
		return err
	}
	step, err := ggml.GGUFValue[uint32](g, keyStep)
	if err != nil {
		return err
	}
	history, evaluations, err := readHistory(g)
	if err != nil {
		return err
	}
	if err := t.readParts(g); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.step, t.History, t.Evaluations = int(step), history, evaluations
	return nil
}

// sameRun reports all differences between this run and the file's.
func (t *Trainer) sameRun(g *ggml.GGUF) error {
	text, err := ggml.GGUFValue[string](g, keyRun)
	if err != nil {
		return err
	}
	theirs := map[string]string{}
	if err := json.Unmarshal([]byte(text), &theirs); err != nil {
		return fmt.Errorf("%s: key %s: %w", g.Name(), keyRun, err)
	}
	var faults []string
	for _, what := range slices.Sorted(maps.Keys(t.identity)) {
		if theirs[what] != t.identity[what] {
			faults = append(faults, fmt.Sprintf("%s was %s, is %s", what, theirs[what], t.identity[what]))
		}
	}
	parts := t.parts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		got, ok := g.Tensor(name)
		switch {
		case !ok:
			faults = append(faults, "tensor "+name+" is missing")
		case got.Type != ggml.F32 || got.NumElements() != parts[name].NumElements():
			faults = append(faults, fmt.Sprintf("tensor %v does not fit %v", got, parts[name]))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s is of another run: %s; start anew, or use the same settings", g.Name(), strings.Join(faults, "; "))
	}
	return nil
}

// readParts fills parameters and moments. All is read before anything is
// written, so that a damaged file changes nothing.
func (t *Trainer) readParts(g *ggml.GGUF) error {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	if err != nil {
		return err
	}
	c := ggml.NewContext()
	defer c.Close()
	buffers, err := g.Load(c, cpu, ggml.LoadOptions{NoMmap: true})
	if err != nil {
		return err
	}
	defer buffers.Close()
	parts := t.parts()
	for from := range c.Tensors() {
		to := parts[from.Name()]
		if to == nil {
			continue
		}
		values, err := ggml.Read[float32](from)
		if err != nil {
			return err
		}
		if err := ggml.Write(to, values); err != nil {
			return err
		}
	}
	return nil
}
