package arch

import "github.com/goggml/ggml"

// xieluKeys are the parameters of xIELU in each layer.
var xieluKeys = []key{
	xieluKey("alpha_n", func(p *ggml.XIELUParams) *float32 { return &p.AlphaN }),
	xieluKey("alpha_p", func(p *ggml.XIELUParams) *float32 { return &p.AlphaP }),
	xieluKey("beta", func(p *ggml.XIELUParams) *float32 { return &p.Beta }),
	xieluKey("eps", func(p *ggml.XIELUParams) *float32 { return &p.Eps }),
}

// xieluKey is one of them: a number for each layer, or one for all.
func xieluKey(name string, field func(p *ggml.XIELUParams) *float32) key {
	return key{
		name: "xielu." + name, unprefixed: true,
		read: func(m *metadata, name string, c *Config) {
			if c.XIELU == nil {
				c.XIELU = make([]ggml.XIELUParams, c.Layers)
			}
			for i, x := range m.factors(name, c.Layers) {
				*field(&c.XIELU[i]) = x
			}
		},
		write: func(c *Config) any {
			list := make([]float32, len(c.XIELU))
			for i := range c.XIELU {
				list[i] = *field(&c.XIELU[i])
			}
			return list
		},
	}
}

// factors reads a real number for each layer, from a list or from one number for all layers.
func (m *metadata) factors(name string, layers int) []float32 {
	list, isList := m.list(name)
	if !isList {
		x, all := value(m, name, float32(0), false), make([]float32, layers)
		for i := range all {
			all[i] = x
		}
		return all
	}
	factors, ok := list.Interface().([]float32)
	if !ok || len(factors) != layers {
		m.fault("%s is not a list of %d real numbers", name, layers)
		return nil
	}
	return factors
}
