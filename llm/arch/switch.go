package arch

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/state"
)

// A Switch describes LoRA adapters in a model's own file. Each token uses one of them, or number 0, whose matrices are zero.
// The zero value stands for a file without adapters.
type Switch struct{ Adapters, Rank int }

// SwitchTokens are the tokens that activate the adapters of a [Switch], one for each. The model sees a substitute instead.
type SwitchTokens struct {
	Gain                 float32 // how much more such a token counts than others, as a logarithm: half of it
	Activate, Substitute []int
}

func (s Switch) is() bool { return s.Adapters > 0 }

// add adds B·(A·x) of each token's adapter to y, the product of a matrix with x.
func (s Switch) add(p Place, t *nn.Tape, kind Kind, x, y *nn.Value) *nn.Value {
	if !s.is() {
		return y
	}
	rank, ids := int64(s.Rank), p.adaptersOfTokens(t, nil, x.T.Dim(1))
	lowRank := t.LinearID(t.Columns(x), ids, s.matrix(p, kind+".lora_a", x.T.Dim(0), rank, 1))
	return t.Add(y, t.Flatten(t.LinearID(lowRank, ids, s.matrix(p, kind+".lora_b", rank, y.T.Dim(0), 0))))
}

// matrix declares the matrices [in, out] of all adapters, and of number 0. New adapters change nothing, as scale is 0 for one of both.
func (s Switch) matrix(p Place, kind Kind, in, out int64, scale float32) nn.Matrix {
	return p.matrixOf(Weight{
		Kind: kind, Name: p.prefix + string(kind), Shape: []int64{in, out, int64(s.Adapters) + 1}, Role: ExpertMatrices, KeepType: true, NoLoRA: true, Used: 1,
		Init: func(rng *rand.Rand, values []float32) {
			for i := int(in * out); i < len(values); i++ {
				values[i] = scale * float32(rng.NormFloat64()/math.Sqrt(float64(in)))
			}
		},
	})
}

// A SwitchRouter chooses the adapters of all layers by the tokens up to each. It passes on what it sees.
type SwitchRouter struct{}

// String describes the part.
func (SwitchRouter) String() string { return "adapters in the file, chosen by tokens" }

// Forward returns x.
func (SwitchRouter) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	if kept, ok := p.State(0).(*state.Tokens); ok {
		p.adaptersOfTokens(t, kept, x.T.Dim(1))
	}
	return x
}

// NewStates makes a state of the tokens.
func (SwitchRouter) NewStates(o state.Options) ([]state.State, error) {
	return oneState(state.NewTokens(o))
}

// Check reports sizes that are out of bounds, and tokens that do not fit.
func (SwitchRouter) Check(c Config) []string {
	faults := c.sizeFaults([]sizeBound{{"adapters.count", c.Switch.Adapters, 1 << 12}, {"adapters.lora_rank", c.Switch.Rank, 1 << 12}})
	if gain := c.SwitchTokens.Gain; !positive(gain) {
		faults = append(faults, fmt.Sprintf("%s is %v; it must be positive", c.key("adapters.router_gain"), gain))
	}
	for _, list := range []struct {
		name   string
		tokens []int
	}{{"adapters.token_ids_activate", c.SwitchTokens.Activate}, {"adapters.token_ids_substitute", c.SwitchTokens.Substitute}} {
		if len(list.tokens) != c.Switch.Adapters {
			faults = append(faults, fmt.Sprintf("%s has %d tokens for %d adapters", c.key(list.name), len(list.tokens), c.Switch.Adapters))
		}
		for _, id := range list.tokens {
			if id < 0 || id >= c.Vocab {
				faults = append(faults, fmt.Sprintf("%s has token %d of a vocabulary of %d", c.key(list.name), id, c.Vocab))
			}
		}
	}
	if c.HeadSize != c.RoPE.Dims {
		faults = append(faults, fmt.Sprintf("%s is %d, not %d as heads are", c.key("rope.dimension_count"), c.RoPE.Dims, c.HeadSize))
	}
	return faults
}

// adaptersOfTokens returns the adapter of each of the last n tokens, I32 [1, n]. The first layer of a graph that continues
// sequences calls it with the tokens that they keep; the others share its input.
func (b *Builder) adaptersOfTokens(t *nn.Tape, kept *state.Tokens, n int64) *ggml.Tensor {
	of := b.config.SwitchTokens
	numbers := of.numbers()
	all := nn.Declare(t.Inputs, "adapters of tokens", ggml.I32, []int64{1, b.NumTokens}, func(f *nn.Feed, ids []int32) {
		if kept != nil {
			kept.Begin(b.Pass, f)
		}
		for row := range f.Rows {
			var seen adapterCounts
			if kept != nil {
				for _, token := range kept.Before(b.Pass, f, row) {
					seen.add(numbers[token])
				}
			}
			for i := row * f.Length(); i < (row+1)*f.Length(); i++ {
				if f.Positions[i] == 0 { // a sample begins
					seen = adapterCounts{}
				}
				seen.add(numbers[f.Tokens[i]])
				ids[i] = seen.adapter(of.Gain)
			}
		}
	})
	return t.Last(nn.Input(all), n).T
}

// numbers returns the adapter that each token activates.
func (s SwitchTokens) numbers() map[int32]int {
	numbers := map[int32]int{}
	for i, token := range s.Activate {
		numbers[int32(token)] = i + 1
	}
	return numbers
}

// adapterCounts are the tokens that a token sees.
type adapterCounts struct{ all, activating, sum int }

// add counts a token that activates an adapter; number 0: none.
func (a *adapterCounts) add(number int) {
	a.all++
	if number > 0 {
		a.activating++
		a.sum += number
	}
}

// adapter is the rounded mean number of what the tokens activate. Stock llama.cpp computes it by a head of attention whose keys
// are ±gain and whose values are the numbers: tokens that activate none count by e^(-2·gain), and with number 0.
func (a adapterCounts) adapter(gain float32) int32 {
	if a.activating == 0 {
		return 0
	}
	others := float64(a.all-a.activating) * math.Exp(-2*float64(gain))
	return int32(math.Round(float64(float32(float64(a.sum) / (float64(a.activating) + others)))))
}

// embeddedTokens is the input of the tokens whose embeddings the model sees.
func (b *Builder) embeddedTokens(t *nn.Tape) *ggml.Tensor {
	s := b.config.SwitchTokens
	if len(s.Activate) == 0 {
		return t.TokenIDs(b.NumTokens)
	}
	numbers := s.numbers()
	return nn.Declare(t.Inputs, "substituted tokens", ggml.I32, []int64{b.NumTokens}, func(f *nn.Feed, ids []int32) {
		for i, token := range f.Tokens {
			if number := numbers[token]; number > 0 {
				token = int32(s.Substitute[number-1])
			}
			ids[i] = token
		}
	})
}

var switchKeys = []key{
	count("adapters.count", func(c *Config) *int { return &c.Switch.Adapters }),
	count("adapters.lora_rank", func(c *Config) *int { return &c.Switch.Rank }),
	factor("adapters.router_gain", func(c *Config) *float32 { return &c.SwitchTokens.Gain }, 15, false),
	numbersKey("adapters.token_ids_activate", func(c *Config) *[]int { return &c.SwitchTokens.Activate }, true),
	numbersKey("adapters.token_ids_substitute", func(c *Config) *[]int { return &c.SwitchTokens.Substitute }, true),
}

// switchAttention is granite's with the adapters, and without others: stock llama.cpp multiplies all matrices of layers without.
func switchAttention(c *Config, i int, a *Attention) {
	skipRoPE(c, i, a)
	a.FusedQKV, a.QKVBias, a.PlainOutput, a.Switch = true, Never, true, c.Switch
}

// switchLayer has the adapters in its network too. The first layer begins with the router.
func switchLayer(c *Config, i int, attention, network Residual) Layer {
	f := network.Part.(FeedForward)
	f.Plain, f.Switch = true, c.Switch
	network.Part, network.Tokenwise = f, false // in chunks each adapter would be read more than once
	if i > 0 {
		return Layer{attention, network}
	}
	return Layer{{Part: SwitchRouter{}, Replaces: true}, attention, network}
}
