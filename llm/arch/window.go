package arch

// windowKeys returns the keys of models in which all but every so many-th layer have a window.
func windowKeys(pattern int) []key { return windowKeysOf(pattern, 0) }

// windowKeysOf are windowKeys for models that have a window where a file says nothing of it.
func windowKeysOf(pattern, window int) []key {
	return []key{
		optional("attention.sliding_window", func(c *Config) *int { return &c.Window }, always(window)),
		withWindow(key{
			name: "attention.sliding_window_pattern",
			read: func(m *metadata, name string, c *Config) { c.WindowPattern, c.LocalLayers = m.pattern(name, pattern) },
			write: func(c *Config) any {
				if c.LocalLayers != nil {
					return c.LocalLayers
				}
				return uint32(c.WindowPattern)
			},
		}),
	}
}

// withWindow makes a key count only if there is a window.
func withWindow(k key) key {
	return key{
		name: k.name,
		read: func(m *metadata, name string, c *Config) {
			if c.Window > 0 {
				k.read(m, name, c)
			}
		},
		write: func(c *Config) any {
			if c.Window == 0 {
				return nil
			}
			return k.write(c)
		},
	}
}

// isLocal reports whether a layer sees a window.
func (c *Config) isLocal(i int) bool {
	switch {
	case c.Window == 0:
		return false
	case c.LocalLayers != nil:
		return c.LocalLayers[i]
	}
	return c.WindowPattern > 0 && (i+1)%c.WindowPattern != 0
}

// local lets local layers see a window, and reports whether the layer is one.
func local(c *Config, i int, a *Attention) bool {
	if c.isLocal(i) {
		a.Window = c.Window
	}
	return a.Window > 0
}

// localBase is the frequency base of RoPE in local layers; without a key, the one of all layers.
var localBase = withWindow(derived(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, func(c *Config) float32 { return c.RoPE.FreqBase }))

// setLocalRoPE gives RoPE of a local layer the base of its own, and the factor that only local layers may have.
func (c *Config) setLocalRoPE(a *Attention) {
	a.RoPE.FreqBase = c.LocalFreqBase
	c.stretchLocalRoPE(a)
}

// stretchLocalRoPE gives RoPE of a local layer the factor that only these may have.
func (c *Config) stretchLocalRoPE(a *Attention) {
	if c.LocalFactor != 0 {
		a.RoPE.FreqScale = 1 / c.LocalFactor
	}
}

// firstGlobal lets the first of every WindowPattern layers see all tokens, instead of the last, if the file has a number
// for the pattern and no list.
func (c *Config) firstGlobal() {
	if c.Window == 0 || c.LocalLayers != nil || c.WindowPattern == 0 {
		return
	}
	local := make([]bool, c.Layers)
	for i := range local {
		local[i] = i%c.WindowPattern != 0
	}
	c.WindowPattern, c.LocalLayers = 0, local
}
