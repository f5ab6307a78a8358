package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"deepseek": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, reads: readsWidth | readsSharedCount | readsDense | readsScale, module: "mlp.shared_experts",
			},
		},
		"deepseek2-ocr": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, keys: []key{noImageWindow},
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, ChoiceBias: Maybe, Module: "mlp.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// noImageWindow refuses models whose queries see a window, and all of the image.
var noImageWindow = key{
	name: "attention.sliding_window",
	read: func(m *metadata, name string, _ *Config) {
		if n := m.size(name, 0, true); n > 0 {
			m.fault("%s.%s is %d: windows beside an image are unsupported", m.arch, name, n)
		}
	},
	write: func(*Config) any { return nil },
}
