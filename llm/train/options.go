package train

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/weightcache"
)

// Options are the settings of a run. They determine its result, except DataOrigin, Engine, Threads, Checkpointing and
// Memory; Group changes it only by rounding.
type Options struct {
	Schedule Schedule
	// Epochs ends the run when each row has been seen that many times; the last step may be shorter. 0
	// leaves the end to Schedule.Steps. If both are set, the run ends at the earlier one.
	Epochs int
	AdamW  AdamW // see [DefaultAdamW]
	// LoRAPlus is the learning rate of adapters' B matrices relative to all other parameters' (LoRA+,
	// arXiv 2402.12354, which recommends 16); 0 means 1.
	LoRAPlus float64
	// Convergence may end the run before its last step.
	Convergence Convergence
	BestBy      BestBy // figure by which evaluations are compared; a resumed run must keep it
	Batch       int    // rows computed together
	Accumulate  int    // batches per optimiser step
	Seed        uint64
	// GroupByLength puts rows of similar length into the same batch, which is then shorter: random rows of
	// a length bucket, in batches of random order. If a step is one batch, it then has only rows of
	// similar length. Within a step, rows are always sorted into batches by length, which does not change
	// its result.
	GroupByLength bool

	// Loss replaces the mean cross-entropy of the step's trained tokens, which is its zero value.
	Loss Loss
	// Dropout and NEFTune add noise to steps, not to evaluations, see [lossgraph.Options]; 0 means none.
	// The noise depends on Seed and step, so a resumed run has the same noise.
	Dropout, NEFTune float32

	// DataOrigin describes how the data was made, by names that users of the program know, such as its
	// flags. It affects no result: if a checkpoint has other data, a [MismatchError] names the
	// differences.
	DataOrigin map[string]string

	// Group holds the processes that train together; nil means this process alone. Each takes its share of
	// a step's rows and of held-out data.
	Group parallel.Group

	// Engine computes, in the model's layout. If it is nil, the trainer creates one with Threads threads
	// (0 means [ggml.DefaultThreads]), which Close closes.
	Engine  *device.Engine
	Threads int
	// Checkpointing trades time for memory. By default steps recompute as little as Memory allows.
	Checkpointing Checkpointing
	// Keep is the memory for results of layers that CheckpointingOn does not recompute, see [lossgraph.Options].
	Keep int64
	// Memory limits the results of a step on each device, the CPU last, with weight copies. If no step fits, [New]
	// returns a *StepMemoryError. nil means that a step, on the CPU with optimizer and mapped weights, may take four fifths
	// of the memory that is available. [Plan.StepMemory] computes it from a limit of the whole run.
	Memory layout.Sizes
	// ComputeType is the type of products with frozen weights in steps, see [lossgraph.Options]: ggml.F32
	// (the zero value), ggml.BF16, ggml.F16, ggml.I16, or ggml.I8, the coarsest; [Trainer.CheckCompute] compares it with F32.
	// Evaluations are always in F32, so they are comparable between machines.
	ComputeType ggml.Type
	// WeightCopies selects the copies of frozen weights that devices hold in the compute type, beside the
	// file's weights. They save a conversion per use and do not change results. nil means as many as fit
	// on each device beside its layers and a step with its Checkpointing. The CPU's kernels need none.
	WeightCopies *weightcache.Tier

	// layers are the layers that steps compute, and watch is called as they pass them, for measuring; nil
	// means all layers, and no calls.
	layers    []int
	layerHook func(layer int, e arch.LayerEvent)
	twoPasses bool // compute the log-probabilities for Loss first: set in a probe if the run that it measures for does so
}

// MaxStepRows is the maximum number of rows per step: a step reads all its rows at once.
const MaxStepRows = 1 << 20

func (o *Options) perStep() int { return o.Batch * o.Accumulate }

// stepsFrom returns the total number of steps of a run that has seen `position` rows in `step` steps.
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
		return fmt.Errorf("a step of %d batches of %d rows is empty; Batch and Accumulate must be at least 1", o.Accumulate, o.Batch)
	case o.Schedule.Steps > math.MaxInt32:
		return fmt.Errorf("a run of %d steps is too long; the limit is %d", o.Schedule.Steps, math.MaxInt32)
	case o.Batch > MaxStepRows/o.Accumulate:
		return fmt.Errorf("a step of %d batches of %d rows is too long; the limit is %d rows", o.Accumulate, o.Batch, MaxStepRows)
	case o.Schedule.Steps < 0 || o.Epochs < 0 || o.Schedule.Steps == 0 && o.Epochs == 0:
		return fmt.Errorf("a run of %d steps and %d epochs is empty; set Schedule.Steps or Epochs", o.Schedule.Steps, o.Epochs)
	case o.AdamW == AdamW{}:
		return errors.New("AdamW is a zero value; DefaultAdamW has the usual settings")
	case !belowOne(o.AdamW.Beta1) || !belowOne(o.AdamW.Beta2):
		return fmt.Errorf("β₁ is %v and β₂ %v; they must be in [0, 1), also when rounded to single precision: at most 0.9999999", o.AdamW.Beta1, o.AdamW.Beta2)
	case !positive(o.AdamW.Epsilon) || !(o.AdamW.Decay >= 0) || !(o.AdamW.Clip >= 0) || !finite(o.AdamW.Decay, o.AdamW.Clip):
		return fmt.Errorf("ε is %v, the weight decay %v, the gradient clip %v; all must be finite, ε positive, the others not negative", o.AdamW.Epsilon, o.AdamW.Decay, o.AdamW.Clip)
	case o.Checkpointing < CheckpointingAuto || o.Checkpointing > CheckpointingOff:
		return fmt.Errorf("the checkpointing is %d; use CheckpointingAuto, CheckpointingOn or CheckpointingOff", int(o.Checkpointing))
	case o.Keep < 0 || o.Keep > 0 && o.Checkpointing != CheckpointingOn:
		return fmt.Errorf("the memory for kept results, Keep, is %d with checkpointing %v; it must not be negative, and needs CheckpointingOn", o.Keep, o.Checkpointing)
	case o.BestBy != BestByLoss && o.BestBy != BestByAccuracy:
		return fmt.Errorf("BestBy is %d; use BestByLoss or BestByAccuracy", int(o.BestBy))
	case o.AdamW.DecayMinDims < 0:
		return fmt.Errorf("DecayMinDims is %d; it must be 0, for all parameters, or more", o.AdamW.DecayMinDims)
	case o.LoRAPlus != 0 && (!positive(o.LoRAPlus) || !finite(o.LoRAPlus*o.Schedule.Peak)):
		return fmt.Errorf("LoRAPlus is %v; it must be positive, and its product with Schedule.Peak finite; 0 stands for 1", o.LoRAPlus)
	}
	return errors.Join(o.validateLoss(), o.Schedule.validate(), o.Convergence.validate(), parallel.CheckRank(o.Group))
}

// finite reports whether all values are finite in single precision, in which the optimiser computes.
func finite(list ...float64) bool {
	return !slices.ContainsFunc(list, func(x float64) bool { return math.IsNaN(x) || math.IsInf(float64(float32(x)), 0) })
}

func positive(x float64) bool { return float32(x) > 0 && finite(x) }

// belowOne reports whether beta is in [0, 1) in single precision, so that a moving average takes in
// new values.
func belowOne(beta float64) bool { return beta >= 0 && float32(beta) < 1 }
