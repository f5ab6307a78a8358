package model

// PromptsTiled tells whether prompts are multiplied by tiles of a quantised matrix.
func PromptsTiled(m *Model, name string) bool { return m.packed.joints[name].plain && fastTiles() }
