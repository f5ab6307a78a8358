package train

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/goggml/ggml"
)

// A checkpoint is a GGUF file with the parameters, the optimiser's moments, the step, the position in
// the data, the history, the settings of the run, and a checksum of all these.
const (
	keyType     = "general.type"
	keyArch     = "general.architecture"
	keyFormat   = "training.file_version"
	keyStep     = "training.iteration"
	keyEpoch    = "training.epoch"
	keyPosition = "training.position"
	keyChecksum = "training.checksum"
	formatNow   = uint32(2)
	typeMarker  = "checkpoint"
)

// Suffixes of tensor names: the moments m and v of a parameter.
const suffixM, suffixV = ".m", ".v"

// remedy ends error messages about checkpoints that cannot be resumed.
const remedy = "use an older checkpoint, or start a new run"

// parts returns the tensors of a checkpoint by name: each parameter and its moments.
func (t *Trainer) parts() map[string]*ggml.Tensor {
	parts := map[string]*ggml.Tensor{}
	for i, p := range t.opt.params {
		parts[p.Name()] = p.Tensor
		parts[p.Name()+suffixM] = t.opt.first[i]
		parts[p.Name()+suffixV] = t.opt.second[i]
	}
	return parts
}

// SaveCheckpoint writes the state of the run to a file beside path, and renames it when it is
// complete, so that a whole checkpoint always exists. Non-finite parameters or moments are an error
// that wraps [ErrDiverged].
func (t *Trainer) SaveCheckpoint(path string) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if err := t.access.Acquire("Trainer.SaveCheckpoint", "Trainer"); err != nil {
		return err
	}
	defer t.access.Release()
	if err := t.checkParameters(); err != nil {
		return err
	}
	if err := t.checkMoments(); err != nil {
		return err
	}
	g, err := ggml.NewGGUF()
	if err != nil {
		return err
	}
	defer g.Close()
	if err := t.writeState(g); err != nil {
		return err
	}
	if err := g.WriteFile(path); err != nil {
		return err
	}
	t.saved = savedCheckpoint{path, t.step}
	return nil
}

func (t *Trainer) writeState(g *ggml.GGUF) error {
	epoch, position := t.position/t.data.Len(), t.position%t.data.Len()
	for _, kv := range []struct {
		key   string
		value any
	}{
		{keyType, typeMarker},
		{keyArch, t.m.Config().Arch},
		{keyFormat, formatNow},
		{keyStep, uint32(t.step)},
		{keyEpoch, uint64(epoch)},
		{keyPosition, uint64(position)},
	} {
		if err := g.Set(kv.key, kv.value); err != nil {
			return err
		}
	}
	if err := t.shuffle.write(g); err != nil {
		return err
	}
	fixed, err := t.fixedSettings()
	if err != nil {
		return err
	}
	free, err := t.freeSettings()
	if err != nil {
		return err
	}
	for _, s := range slices.Concat(fixed, free, t.originSettings()) {
		if err := g.Set(s.key(), s.value); err != nil {
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
			_, err := io.Copy(w, tensorData(p))
			return err
		})
		if err != nil {
			return err
		}
	}
	sum, err := checksum(g, func(name string) (*io.SectionReader, error) { return tensorData(parts[name]), nil })
	if err != nil {
		return err
	}
	return g.Set(keyChecksum, sum)
}

// checksum covers all tensors and all keys except its own.
func checksum(g *ggml.GGUF, data func(name string) (*io.SectionReader, error)) (string, error) {
	h := sha256.New()
	for key, value := range g.Keys() {
		if key == keyChecksum {
			continue
		}
		fmt.Fprintf(h, "%q %T ", key, value)
		switch value.(type) {
		case string, []string:
			fmt.Fprintf(h, "%q", value)
		default: // numbers and lists of numbers
			if err := binary.Write(h, binary.LittleEndian, value); err != nil {
				return "", err
			}
		}
	}
	for info := range g.Tensors() {
		fmt.Fprintf(h, "%q %v %v\n", info.Name, info.Type, info.Shape)
		r, err := data(info.Name)
		if err != nil {
			return "", err
		}
		if err := hashData(h, r); err != nil {
			return "", err
		}
	}
	return short(h), nil
}

// LoadCheckpoint resumes the run that wrote the file, exactly where it was. The trained tensors, the
// model, the data and the order of the rows must be the same, or a [MismatchError] lists the
// differences. The length of the run, the learning rate and its schedule, the optimiser's settings,
// the conditions that end the run early, the compute type and the device may change, see
// [Trainer.Changes].
//
// A damaged file changes nothing.
func (t *Trainer) LoadCheckpoint(path string) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if err := t.access.Acquire("Trainer.LoadCheckpoint", "Trainer"); err != nil {
		return err
	}
	defer t.access.Release()
	g, err := openCheckpoint(path)
	if err != nil {
		return err
	}
	defer g.Close()
	differences, err := t.compareFixed(g)
	if err != nil {
		return err
	}
	if differences = append(differences, t.compareTensors(g)...); len(differences) > 0 {
		return &MismatchError{path, differences}
	}
	s, err := t.readState(g)
	if err != nil {
		return fmt.Errorf("%s: %w; %s", path, err, remedy)
	}
	if err := t.resumeCopies(g); err != nil {
		return err
	}
	if err := errors.Join(s.write(), t.copies.Update(context.Background())); err != nil {
		return err
	}
	t.step, t.position, t.Evaluations = s.step, s.position, s.evaluations
	t.setShuffle(s.shuffle)
	t.History, t.tokens, t.lowest, t.limit = nil, 0, 0, ""
	for _, m := range s.history {
		t.record(m)
	}
	t.saved = savedCheckpoint{path, s.step}
	was, err := ggml.GGUFValue[string](g, freeKeys+string(SettingAtFloor))
	t.options.Schedule.AtFloor = err != nil || was == fmt.Sprint(true) // absent in older checkpoints
	t.plan()
	free, err := t.freeSettings()
	if err != nil {
		return err
	}
	t.changes = compare(g, free)
	return nil
}

// Changes lists the settings that differ from the resumed checkpoint.
func (t *Trainer) Changes() []Difference { return slices.Clone(t.changes) }

// A Summary describes a checkpoint's run.
type Summary struct {
	Steps    int               // completed steps
	Settings map[string]string // as text, by [SettingID]
}

// Summarize reads the summary of a checkpoint.
func Summarize(checkpoint string) (Summary, error) {
	g, err := openCheckpoint(checkpoint)
	if err != nil {
		return Summary{}, err
	}
	defer g.Close()
	steps, err := ggml.GGUFValue[uint32](g, keyStep)
	if err != nil {
		return Summary{}, fmt.Errorf("%s: %w; %s", checkpoint, err, remedy)
	}
	s := Summary{Steps: int(steps), Settings: map[string]string{}}
	for key, value := range g.Keys() {
		for _, keys := range []string{fixedKeys, freeKeys} {
			if id, is := strings.CutPrefix(key, keys); is {
				s.Settings[id] = fmt.Sprint(value)
			}
		}
	}
	return s, nil
}

// openCheckpoint opens and validates a checkpoint.
func openCheckpoint(path string) (*ggml.GGUF, error) {
	g, err := ggml.OpenGGUF(path)
	if err != nil {
		var system *fs.PathError
		if info, statErr := os.Stat(path); statErr != nil || !info.Mode().IsRegular() || errors.As(err, &system) {
			return nil, err // already names the file and the cause
		}
		return nil, fmt.Errorf("%s is not a checkpoint, or is damaged; %s", path, remedy)
	}
	if err := checkFile(g); err != nil {
		g.Close()
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return g, nil
}

// checkFile validates a checkpoint. The caller puts the file's name before the error.
func checkFile(g *ggml.GGUF) error {
	if kind, _ := ggml.GGUFValue[string](g, keyType); kind != typeMarker {
		return fmt.Errorf("is not a checkpoint: its %s is %q", keyType, kind)
	}
	switch format, err := ggml.GGUFValue[uint32](g, keyFormat); {
	case err != nil:
		return fmt.Errorf("is a damaged checkpoint: it has no version; %s", remedy)
	case format < formatNow:
		return fmt.Errorf("is a checkpoint of version %d, which has no checksum and no position in the data; finish its run with the program that began it, or start a new run", format)
	case format > formatNow:
		return fmt.Errorf("is a checkpoint of version %d, but this program reads version %d; use a newer program", format, formatNow)
	}
	want, _ := ggml.GGUFValue[string](g, keyChecksum)
	got, err := checksum(g, g.TensorData)
	if err != nil {
		return fmt.Errorf("is a checkpoint that cannot be read: %w; %s", err, remedy)
	}
	if got != want {
		return fmt.Errorf("is a damaged checkpoint: its checksum is %s instead of %s; %s", got, want, remedy)
	}
	return nil
}

// compareTensors lists tensors that are trained here but not in the checkpoint, or the other way
// round.
func (t *Trainer) compareTensors(g *ggml.GGUF) []Difference {
	var list []Difference
	parts := t.parts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if d, differs := compareTensor(g, name, parts[name]); differs {
			list = append(list, d)
		}
	}
	for info := range g.Tensors() {
		if parts[info.Name] == nil {
			list = append(list, tensorDifference(info.Name, shapeOf(info.Type, info.Shape), absent))
		}
	}
	// The moments differ whenever their parameter does.
	return slices.DeleteFunc(list, func(d Difference) bool {
		return strings.HasSuffix(string(d.ID), suffixM) || strings.HasSuffix(string(d.ID), suffixV)
	})
}

// compareTensor compares the type and shape of a tensor with the checkpoint's tensor of that name.
func compareTensor(g *ggml.GGUF, name string, x *ggml.Tensor) (d Difference, differs bool) {
	is, was := shapeOf(x.Type(), x.Shape()), absent
	if info, ok := g.Tensor(name); ok {
		was = shapeOf(info.Type, info.Shape)
	}
	return tensorDifference(name, was, is), was != is
}

func tensorDifference(name, was, is string) Difference {
	return Difference{SettingID("tensor " + name), "tensor " + name, was, is}
}

// shapeOf formats a type and shape as "f32[ne0, ne1]", without trailing ones, which files omit.
func shapeOf(t ggml.Type, shape []int64) string {
	for len(shape) > 1 && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return ggml.Operand{Type: t, Shape: shape}.String()[1:]
}

// A state is the content of a checkpoint in memory.
type state struct {
	step, position int
	shuffle        shuffle
	history        []StepMetrics
	evaluations    []Evaluation
	values         map[*ggml.Tensor][]float32
}

// write writes parameters and moments to their tensors.
func (s *state) write() error {
	for to, values := range s.values {
		if err := ggml.Write(to, values); err != nil {
			return err
		}
	}
	return nil
}

// readState reads a checkpoint, and returns an error if its contents are inconsistent.
func (t *Trainer) readState(g *ggml.GGUF) (*state, error) {
	step, err := ggml.GGUFValue[uint32](g, keyStep)
	if err != nil {
		return nil, err
	}
	epoch, err := ggml.GGUFValue[uint64](g, keyEpoch)
	if err != nil {
		return nil, err
	}
	position, err := ggml.GGUFValue[uint64](g, keyPosition)
	if err != nil {
		return nil, err
	}
	s := &state{step: int(step)}
	if s.history, s.evaluations, err = readHistory(g); err != nil {
		return nil, err
	}
	if err := s.checkHistory(); err != nil {
		return nil, err
	}
	if s.position, err = t.checkPosition(s.step, epoch, position); err != nil {
		return nil, err
	}
	if s.shuffle, err = t.readShuffle(g, s.position); err != nil {
		return nil, err
	}
	s.values, err = t.readParts(g)
	return s, err
}

// checkHistory checks that the history has every step up to the current one.
func (s *state) checkHistory() error {
	if len(s.history) != s.step {
		return fmt.Errorf("it is at step %d, but has a history of %d steps", s.step, len(s.history))
	}
	for i, m := range s.history {
		if m.Step != i+1 || !finite(m.Loss, m.LearningRate, m.GradNorm, m.Epoch) || m.Tokens < 0 || m.RowTokens < 0 || m.Epoch < 0 {
			return fmt.Errorf("row %d of its history is invalid: {Step:%d Loss:%v LearningRate:%v GradNorm:%v Tokens:%d RowTokens:%d Epoch:%v}",
				i+1, m.Step, m.Loss, m.LearningRate, m.GradNorm, m.Tokens, m.RowTokens, m.Epoch)
		}
	}
	before := -1
	for i, e := range s.evaluations {
		if e.Step <= before || e.Step > s.step || !finite(e.Loss) || !(e.Accuracy >= 0 && e.Accuracy <= 1) || e.Tokens < 0 {
			return fmt.Errorf("row %d of its evaluations is invalid: {Step:%d Loss:%v Accuracy:%v Tokens:%d}", i+1, e.Step, e.Loss, e.Accuracy, e.Tokens)
		}
		before = e.Step
	}
	return nil
}

// checkPosition returns the number of rows seen after `step` steps, and checks it: at least one row
// and at most a full step's rows per step.
func (t *Trainer) checkPosition(step int, epoch, position uint64) (int, error) {
	n := uint64(t.data.Len())
	fault := fmt.Errorf("its step, %d, does not match row %d of epoch %d", step, position, epoch)
	if position >= n || epoch > math.MaxInt64/n-1 {
		return 0, fault
	}
	seen := int(epoch*n + position)
	if seen < step || step == 0 && seen > 0 || step > 0 && (seen-1)/step >= t.perStep() {
		return 0, fault
	}
	return seen, nil
}

// readParts reads parameters and moments.
func (t *Trainer) readParts(g *ggml.GGUF) (map[*ggml.Tensor][]float32, error) {
	all := map[*ggml.Tensor][]float32{}
	parts := t.parts()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		values, err := readValues(g, name, parts[name].NumElements())
		if err != nil {
			return nil, err
		}
		all[parts[name]] = values
	}
	for i, v := range t.opt.second {
		for _, x := range all[v] {
			if x < 0 {
				return nil, fmt.Errorf("its tensor %s, a mean of squares, holds %v", t.opt.params[i].Name()+suffixV, x)
			}
		}
	}
	return all, nil
}
