package train

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/weightcache"
)

// Options are the settings of a run. All but DataOrigin, Engine and Threads decide its result;
// Checkpointing and Group do so by rounding alone.
type Options struct {
	Schedule Schedule
	// Epochs ends the run once each row has been seen that many times, in a step that
	// is shorter where need be; 0 leaves that to Schedule.Steps. With both the run ends at
	// what comes first.
	Epochs int
	AdamW  AdamW // see [DefaultAdamW]
	// LoRAPlus is the ratio of the learning rate of adapters' B matrices to the rate of all else
	// (LoRA+, arXiv 2402.12354, which advises 16); 0 stands for 1.
	LoRAPlus float64
	// Convergence ends the run before its last step.
	Convergence Convergence
	Batch       int // rows of the data set computed together
	Accumulate  int // batches of one optimiser step
	Seed        uint64
	// GroupByLength puts rows of similar length into a batch, which is then as short as they
	// are: random rows of a bucket of lengths, in batches of random order. Steps of one
	// batch then see short rows alone, or long ones. Rows of a step are sorted into its
	// batches in any case, which changes nothing.
	GroupByLength bool

	// Dropout and NEFTune make the steps noisy, and evaluations not, see
	// [lossgraph.Options]; 0 is none. They draw by Seed and step: a run that is
	// continued draws the same.
	Dropout, NEFTune float32

	// DataOrigin describes what the data was made of and how, by names that the users of a program
	// know, such as its flags. It decides nothing: if a checkpoint belongs to other data, a
	// [MismatchError] names the differences.
	DataOrigin map[string]string

	// Group are the processes that train together; nil is this one alone. Each takes its share of
	// the rows of a step, and of held-out data.
	Group parallel.Group

	// Engine computes, in the layout of the model; nil makes one of Threads threads (0 for
	// [ggml.DefaultThreads]), which Close closes.
	Engine  *device.Engine
	Threads int
	// Checkpointing trades time for memory; by default where there is too little of it.
	Checkpointing Checkpointing
	// ComputeType is the type of the products with frozen weights in the steps, see
	// [lossgraph.Options]: ggml.F32, the zero value, ggml.BF16 or ggml.F16. Evaluations are
	// always in F32, and so comparable between machines.
	ComputeType ggml.Type
	// WeightCopies is how many copies of frozen weights devices keep in the compute type, beside
	// the file's weights: they save a conversion at each use, and change no result. nil means as
	// many as each device has memory for beside its layers and a step as Checkpointing has it. The
	// CPU's kernels need none.
	WeightCopies *weightcache.Tier

	// layers are those that steps compute, of which watch is told, to measure them; nil is all, and nobody.
	layers []int
	watch  func(layer int, at arch.Passage)
}

// MaxStepRows is how many rows a step can have: it reads all of them at once.
const MaxStepRows = 1 << 20

func (o *Options) perStep() int { return o.Batch * o.Accumulate }

// stepsFrom returns the number of steps of a run on a number of rows, given a step and the number of rows
// seen by then.
func (o *Options) stepsFrom(step, position, rows int) int {
	if o.Epochs == 0 {
		return o.Schedule.Steps
	}
	left := (float64(o.Epochs)*float64(rows) - float64(position)) / float64(o.perStep())
	byEpochs := int(min(float64(step)+math.Ceil(max(0, left)), math.MaxInt32))
	if o.Schedule.Steps == 0 {
		return byEpochs
	}
	return min(byEpochs, o.Schedule.Steps)
}

func (o *Options) validate() error {
	switch {
	case o.Batch < 1 || o.Accumulate < 1:
		return fmt.Errorf("a step of %d batches of %d rows is empty; Batch and Accumulate are at least 1", o.Accumulate, o.Batch)
	case o.Schedule.Steps > math.MaxInt32:
		return fmt.Errorf("a run of %d steps is too long; it can have %d", o.Schedule.Steps, math.MaxInt32)
	case o.Batch > MaxStepRows/o.Accumulate:
		return fmt.Errorf("a step of %d batches of %d rows is too long; it can have %d rows", o.Accumulate, o.Batch, MaxStepRows)
	case o.Schedule.Steps < 0 || o.Epochs < 0 || o.Schedule.Steps == 0 && o.Epochs == 0:
		return fmt.Errorf("a run of %d steps and %d epochs is empty; set Schedule.Steps or Epochs", o.Schedule.Steps, o.Epochs)
	case o.AdamW == AdamW{}:
		return errors.New("AdamW is a zero value; DefaultAdamW has the usual settings")
	case !belowOne(o.AdamW.Beta1) || !belowOne(o.AdamW.Beta2):
		return fmt.Errorf("β₁ is %v and β₂ %v; they must be in [0, 1), in single precision too: at most 0.9999999", o.AdamW.Beta1, o.AdamW.Beta2)
	case !positive(o.AdamW.Epsilon) || !(o.AdamW.Decay >= 0) || !(o.AdamW.Clip >= 0) || !finite(o.AdamW.Decay, o.AdamW.Clip):
		return fmt.Errorf("ε is %v, the weight decay %v, the gradient clip %v; all must be finite, ε positive, the others not negative", o.AdamW.Epsilon, o.AdamW.Decay, o.AdamW.Clip)
	case o.Checkpointing < CheckpointingAuto || o.Checkpointing > CheckpointingOff:
		return fmt.Errorf("the checkpointing is %d; it is CheckpointingAuto, CheckpointingOn or CheckpointingOff", int(o.Checkpointing))
	case o.AdamW.DecayMinDims < 0:
		return fmt.Errorf("parameters decay from %d dimensions on; it must be 0, for all, or more", o.AdamW.DecayMinDims)
	case o.LoRAPlus != 0 && (!positive(o.LoRAPlus) || !finite(o.LoRAPlus*o.Schedule.Peak)):
		return fmt.Errorf("the learning rate of B is %v times that of A; it must be positive and finite, or 0 for 1", o.LoRAPlus)
	}
	return errors.Join(o.Schedule.validate(), o.Convergence.validate(), checkGroup(groupOf(o.Group)))
}

// finite reports whether all are numbers below infinity in single precision, in which the
// optimiser computes.
func finite(list ...float64) bool {
	return !slices.ContainsFunc(list, func(x float64) bool { return math.IsNaN(x) || math.IsInf(float64(float32(x)), 0) })
}

func positive(x float64) bool { return float32(x) > 0 && finite(x) }

// belowOne reports whether a decay rate lets anything new in.
func belowOne(beta float64) bool { return beta >= 0 && float32(beta) < 1 }
