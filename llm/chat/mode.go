package chat

// Mode says which bytes of a conversation are trained.
type Mode int

// What can be trained.
const (
	// Assistant trains all that the assistant writes: its words, the mark-up of its reasoning and tool calls, and the
	// end of its turns.
	Assistant Mode = iota
	// Last trains the last message of the assistant.
	Last
	// Completion trains everything that follows the last message that is not the assistant's.
	Completion
	// All trains every byte.
	All
)

var modeNames = []string{"assistant", "last", "completion", "all"}

// String is the name of the mode, as ParseMode takes it.
func (m Mode) String() string { return nameOf(m, modeNames) }

// ParseMode is the mode of a name: assistant, last, completion or all.
func ParseMode(name string) (Mode, error) { return byName[Mode](name, modeNames, "mode %q") }
