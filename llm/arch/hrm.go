package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"hrm_text": {
			rope: ggml.RoPENeoX, norm: norming{bare: true}, norms: normBefore, act: ggml.SwiGLU, keys: hrmKeys, layer: sigmoidGate,
			blocks: hrmBlocks, layerOrder: hrmLayerOrder, inModules: hrmModule, scaledLater: true,
		},
	})
}

var hrmKeys = []key{
	factor("embedding_scale", func(c *Config) *float32 { return &c.EmbdScale }, 0, false),
	count("hrm.layers_per_stack", func(c *Config) *int { return &c.StackLayers }),
	count("hrm.h_cycles", func(c *Config) *int { return &c.HighCycles }),
	count("hrm.l_cycles", func(c *Config) *int { return &c.LowCycles }),
	{
		name: "hrm.prefix_lm",
		read: func(m *metadata, name string, _ *Config) {
			if value(m, m.arch+"."+name, false, true) {
				m.fault("%s.%s is true: bidirectional attention within prompts is unsupported", m.arch, name)
			}
		},
		write: func(*Config) any { return nil },
	},
}

// sigmoidGate has a gate for each element.
func sigmoidGate(_ *Config, _ int, a *Attention) { a.Gate = SigmoidGate }

// hrmBlocks returns the blocks in the order of layers: each cycle passes the low stack LowCycles
// times, then the high stack once.
func hrmBlocks(c *Config) (blocks []int) {
	for range c.HighCycles {
		for low := range c.LowCycles + 1 {
			first := 0
			if low == c.LowCycles {
				first = c.StackLayers
			}
			for i := range c.StackLayers {
				blocks = append(blocks, first+i)
			}
		}
	}
	return blocks
}

// hrmLayerOrder runs two stacks of layers repeatedly, each on the sum of both stacks' last results (arXiv
// 2506.21734). Each result is normalised, the last one by the output norm.
func hrmLayerOrder(p Place, t *nn.Tape, x *nn.Value, pass func(x *nn.Value, layer int) *nn.Value) *nn.Value {
	c, last := p.config, len(p.layers)
	low := func(high *nn.Value) *nn.Value {
		return t.AddWeight(high, p.Weight(Weight{Name: "hrm.z_l_init", Kind: "hrm.z_l_init", Shape: []int64{int64(c.Embd)}, Role: Bias}))
	}
	high, sum, layer := x, low(x), 0
	stack := func(x *nn.Value) *nn.Value {
		for range c.StackLayers {
			x = pass(x, layer)
			layer++
		}
		if layer == last {
			return x
		}
		return p.Norm(t, "stack_norm", x)
	}
	for range c.HighCycles {
		var z *nn.Value
		for range c.LowCycles {
			z = stack(sum)
			sum = t.Add(high, z)
		}
		high = stack(sum)
		if layer < last {
			sum = t.Add(high, z)
		}
	}
	return high
}

// hrmModule is the path of a layer in one of two stacks.
func hrmModule(c *Config, block int) string {
	if block < c.StackLayers {
		return fmt.Sprintf("L_module.layers.%d.", block)
	}
	return fmt.Sprintf("H_module.layers.%d.", block-c.StackLayers)
}
