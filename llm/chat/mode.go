package chat

// Mode selects which bytes of a conversation are trained.
type Mode int

// Modes.
const (
	// Assistant trains everything that the assistant writes: its words, the mark-up of its reasoning and tool calls,
	// and the ends of its turns.
	Assistant Mode = iota
	// Last trains the assistant's last message.
	Last
	// Completion trains everything after the last message of another role.
	Completion
	// All trains every byte.
	All
)

var modeNames = []string{"assistant", "last", "completion", "all"}

// String returns the name that ParseMode accepts.
func (m Mode) String() string { return nameOf(m, modeNames) }

// ParseMode parses assistant, last, completion or all.
func ParseMode(name string) (Mode, error) { return byName[Mode](name, modeNames, "mode %q") }
