package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// adapterFlags describe the adapter to train. Flags of ranks are named as in upstream's finetune.
type adapterFlags struct {
	LoRAIn     string   `name:"lora-in" aliases:"resume-adapter-file,adapter-name-or-path" placeholder:"FILE" help:"Adapter to continue from: a GGUF file, or a folder of PEFT. It keeps its ranks and strength." group:"Adapter"`
	R          int      `name:"lora-r" setting:"adapter scale of *,tensor *.lora_[ab]" aliases:"rank,lora-rank" range:"[0,65536]" default:"16" help:"Rank of the adapter's matrices: the higher, the more it can learn, and the larger it is." group:"Adapter" basic:""`
	Alpha      *float32 `name:"lora-alpha" setting:"adapter scale of *" aliases:"alpha" range:"(0,65536]" placeholder:"X" help:"Strength: the adapter is scaled by alpha/rank, with --rslora by alpha/√rank; by default twice the rank of each matrix, with --rslora 16." group:"Adapter" basic:""`
	Scale      *float32 `name:"lora-scale" setting:"adapter scale of *" range:"(0,65536]" placeholder:"X" help:"Strength as the factor itself, whatever the rank (mlx-lm's scale), instead of --lora-alpha." group:"Adapter"`
	RSLoRA     bool     `name:"rslora" setting:"adapter scale of *" aliases:"use-rslora" help:"Divide by the root of the rank, so that high ranks learn as fast as low ones (arXiv 2312.03732)." group:"Adapter"`
	Init       string   `name:"lora-init" default:"kaiming" enum:"kaiming,normal" help:"Distribution of A at the start, kaiming or normal; B starts at zero." group:"Adapter"`
	Targets    []string `name:"targets" setting:"tensor *.lora_[ab]" aliases:"target-modules,lora-modules" placeholder:"NAME" help:"Matrices to adapt, separated by commas: all-linear (the default: attention alone learns less at equal size), names such as attn_q, q_proj or token_embd, or patterns of tensors such as blk.1?.ffn_*." group:"Adapter" basic:""`
	LastLayers int      `name:"last-layers" setting:"tensor *.lora_[ab]" aliases:"num-layers" range:"[-1,)" default:"-1" unset:"-1" help:"Adapt only this many layers at the end of the model; -1 is all." group:"Adapter"`
	Ranks      []string `name:"rank-of" setting:"tensor *.lora_[ab]" placeholder:"NAME=R" help:"Rank of matrices, named as in --targets; 0 leaves them out. Can be given several times; if several apply to a matrix, the one for the fewest matrices counts." group:"Adapter"`
	LoRAPlus   float64  `name:"lora-plus" setting:"learning rate of B over that of A" aliases:"loraplus-lr-ratio" range:"(0,)" default:"1" help:"Ratio of B's learning rate to A's (arXiv 2402.12354, which advises 16)." group:"Adapter"`
	Dropout    float32  `name:"lora-dropout" setting:"dropout" range:"[0,1)" default:"0" help:"Fraction of A's inputs that each step drops: 0.05 to 0.1 for small data with several epochs; 0 for none." group:"Adapter"`
	NEFTune    float32  `name:"neftune-alpha" setting:"alpha of NEFTune" aliases:"neftune-noise-alpha" range:"[0,)" default:"0" help:"Noise added to embeddings in training (NEFTune, arXiv 2310.05914, which advises 5), for more varied chat answers; 0 for none." group:"Adapter"`

	WQ      int `name:"rank-wq" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the attention's query matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	WK      int `name:"rank-wk" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the key matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	WV      int `name:"rank-wv" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the value matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	WQKV    int `name:"rank-wqkv" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the matrix of queries, keys and values, if the model has one for all three, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	WO      int `name:"rank-wo" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the attention's output matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	FFNGate int `name:"rank-ffn-gate" aliases:"rank-w1" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the feed-forward gate matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	FFNDown int `name:"rank-ffn-down" aliases:"rank-w2" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the feed-forward down matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	FFNUp   int `name:"rank-ffn-up" aliases:"rank-w3" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank of the feed-forward up matrix, 0 for none; by default, and with -1, --lora-r." group:"Adapter"`
	TokEmbd int `name:"rank-tok-embd" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank for the token embedding; by default, with -1 and 0, it is left out." group:"Adapter"`
	Out     int `name:"rank-out" range:"[-1,65536]" default:"-1" unset:"-1" placeholder:"R" help:"Rank for the matrix that makes logits; by default, with -1 and 0, it is left out." group:"Adapter"`
	AttNorm int `name:"rank-att-norm" range:"[0,)" default:"0" unset:"0" hidden:""`
	FFNNorm int `name:"rank-ffn-norm" range:"[0,)" default:"0" unset:"0" hidden:""`
	OutNorm int `name:"rank-out-norm" range:"[0,)" default:"0" unset:"0" hidden:""`
}

// targetRanks returns the flags that set the rank of a target.
func (f *adapterFlags) targetRanks() []targetRank {
	return []targetRank{
		{"--rank-wq", "attn_q", f.WQ}, {"--rank-wk", "attn_k", f.WK}, {"--rank-wv", "attn_v", f.WV},
		{"--rank-wqkv", "attn_qkv", f.WQKV}, {"--rank-wo", "attn_output", f.WO},
		{"--rank-ffn-gate", "ffn_gate", f.FFNGate}, {"--rank-ffn-down", "ffn_down", f.FFNDown}, {"--rank-ffn-up", "ffn_up", f.FFNUp},
		{"--rank-tok-embd", "token_embd", f.TokEmbd}, {"--rank-out", "output", f.Out},
	}
}

type targetRank struct {
	flag, target string
	rank         int // -1 if not given
}

// ranks returns the ranks that differ from --lora-r, by target.
func (f *adapterFlags) ranks(a *arch.Architecture) (map[string]int, error) {
	if f.AttNorm > 0 || f.FFNNorm > 0 || f.OutNorm > 0 {
		return nil, errors.New("--rank-att-norm, --rank-ffn-norm, --rank-out-norm: llama.cpp ignores adapters of norms; leave them out")
	}
	ranks := map[string]int{}
	for _, arg := range f.Ranks {
		name, number, _ := strings.Cut(arg, "=")
		r, err := strconv.Atoi(number)
		if err != nil || r < 0 {
			return nil, fmt.Errorf("--rank-of %s: expected NAME=R, for example ffn_down=32, with R of 0 or more", arg)
		}
		ranks[name] = r
	}
	known := lora.Targets(a)
	for _, t := range f.targetRanks() {
		if t.rank < 0 {
			continue
		}
		if !slices.Contains(known, t.target) {
			return nil, fmt.Errorf("%s: the model has no matrix %s; its layers have %s", t.flag, t.target, strings.Join(a.Linears(), ", "))
		}
		ranks[t.target] = t.rank
	}
	return ranks, nil
}

// options returns the options of a new adapter.
func (f *adapterFlags) options(m *model.Model, seed uint64) (lora.Options, error) {
	ranks, err := f.ranks(m.Architecture())
	if err != nil {
		return lora.Options{}, err
	}
	switch {
	case f.LastLayers > m.Config().Layers:
		return lora.Options{}, fmt.Errorf("--last-layers %d: the model has %s", f.LastLayers, cli.Count(m.Config().Layers, "layer"))
	case m.Config().Tied && ranks["token_embd"] > 0:
		return lora.Options{}, fmt.Errorf("--rank-tok-embd: %s uses its token embedding as the output matrix too, and llama.cpp cannot load an adapter of a shared matrix; leave the flag out", m.Path)
	case m.Config().Tied && ranks["output"] > 0:
		return lora.Options{}, fmt.Errorf("--rank-out: %s has no output matrix: it uses its token embedding instead; leave the flag out", m.Path)
	}
	o := lora.Options{
		Rank: f.R, Ranks: ranks, Targets: f.Targets, LastLayers: cli.Optional(f.LastLayers),
		RankStabilized: f.RSLoRA, Init: lora.Init(f.Init), Seed: seed,
	}
	switch o.Alpha = f.alpha(); {
	case f.Scale != nil && (f.Alpha != nil || f.RSLoRA):
		return o, errors.New("--lora-scale sets the factor that --lora-alpha and --rslora would compute; give --lora-scale alone, or leave it out")
	case f.Scale != nil:
		o.Factor = *f.Scale
	case o.Alpha == 0:
		o.Factor = 2
	}
	return o, nil
}

// alpha returns --lora-alpha, or 0 for twice the rank of each matrix.
func (f *adapterFlags) alpha() float32 {
	switch {
	case f.Alpha != nil:
		return *f.Alpha
	case f.RSLoRA:
		return 16
	}
	return 0
}

// resolved returns the values that the run chose for flags that leave a choice.
func (f *adapterFlags) resolved() map[string]cli.Resolved {
	resolved := map[string]cli.Resolved{"lora-alpha": {Value: f.alpha()}}
	switch {
	case f.Scale != nil:
		resolved["lora-alpha"] = cli.Resolved{} // --lora-scale replaces it
	case f.alpha() == 0:
		resolved["lora-alpha"] = cli.Resolved{Value: 2 * f.R}
		if f.hasOtherRanks() {
			resolved["lora-alpha"] = cli.Resolved{} // twice the rank of each matrix
		}
	}
	if len(f.Targets) == 0 {
		resolved["targets"] = cli.Resolved{Value: []string{"all-linear"}}
	}
	return resolved
}

// hasOtherRanks reports whether some matrices have a rank other than --lora-r.
func (f *adapterFlags) hasOtherRanks() bool {
	return len(f.Ranks) > 0 || slices.ContainsFunc(f.targetRanks(), func(t targetRank) bool { return t.rank > 0 && t.rank != f.R })
}

// adapter returns the adapter to train: a new one, or the loaded one that training continues.
func (f *adapterFlags) adapter(m *model.Model, seed uint64) (*lora.Adapter, error) {
	if f.LoRAIn != "" {
		a, err := lora.Load(f.LoRAIn, m)
		if err != nil {
			return nil, fmt.Errorf("--lora-in: %w", err)
		}
		return a, nil
	}
	o, err := f.options(m, seed)
	if err != nil {
		return nil, err
	}
	a, err := lora.New(m, o)
	if errors.Is(err, lora.ErrNoPairs) && f.LastLayers == 0 {
		return nil, errors.New("--last-layers 0 adapts no layer, so there is nothing to train; set it to 1 or more, or set --rank-out")
	}
	if errors.Is(err, lora.ErrNoPairs) {
		return nil, errors.New("all ranks are 0, so there is nothing to train; set --lora-r, or the rank of a matrix, such as --rank-wq")
	}
	return a, err
}

// describesNew reports whether a flag describes a new adapter.
func (f *adapterFlags) describesNew(flag string) bool {
	return slices.Contains([]string{"lora-r", "lora-alpha", "lora-scale", "rslora", "lora-init", "targets", "last-layers", "rank-of"}, flag) ||
		slices.ContainsFunc(f.targetRanks(), func(t targetRank) bool { return t.flag == "--"+flag })
}

// check returns an error for flags that would have no effect.
func (f *adapterFlags) check(given map[string]bool) error {
	if f.LoRAIn == "" {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] && f.describesNew(name) {
			return fmt.Errorf("--%s describes a new adapter, but --lora-in continues %s as it is; leave one of the two flags out", name, f.LoRAIn)
		}
	}
	return nil
}
