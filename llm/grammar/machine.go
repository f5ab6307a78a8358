package grammar

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// ErrAmbiguous reports a text with so many derivations by its grammar that following all of them would take too long.
var ErrAmbiguous = errors.New("grammar: the text so far has too many derivations; write the grammar so that the next characters decide between its alternatives")

// Limits of a machine.
const (
	maxWork   = 1 << 17 // items of an operation, such as a mask: some hundredths of a second
	keptItems = 1 << 16 // items and stacks that are kept between operations
	keptNext  = 1 << 18 // entries of the table of transitions
)

// A machine runs an automaton over one text. Configurations are numbered as they are found, and a table of transitions
// between them fills as they are used (a lazy deterministic automaton).
type machine struct {
	*automaton
	configs []config
	index   map[string]int32 // of configs, by their items
	next    []int32          // [config · classes]: a config, or unknown
	stacks  map[stackKey]*stack
	items   int // of all configs
	kept    int // items and stacks from which on the next operation forgets all others
	work    int // left to the operation

	todo []item // reused
	seen map[item]bool
	key  []byte
}

// A config (configuration) is a set of items, closed under empty edges, calls and returns. Config 0, dead, has none.
type config struct {
	items []item // those with edges of bytes or tokens, in order
	ends  bool   // the text may end
}

// An item is a state with the calls that it returns to.
type item struct {
	state int32
	stack *stack // nil in root
}

// A stack is a list of states to return to. Equal stacks are one.
type stack struct {
	back  int32
	below *stack
	id    int32 // from 1 on
}

type stackKey struct{ back, below int32 }

func (s *stack) number() int32 {
	if s == nil {
		return 0
	}
	return s.id
}

const (
	dead    = 0
	unknown = -1
)

// newMachine returns a machine and its first config.
func newMachine(a *automaton) (*machine, int32, error) {
	m := &machine{automaton: a, seen: map[item]bool{}}
	m.clear()
	m.work = maxWork
	first, err := m.explore([]item{{state: a.root}})
	return m, first, err
}

func (m *machine) clear() {
	m.configs, m.next, m.items, m.kept = nil, nil, 0, keptItems
	m.index, m.stacks = map[string]int32{}, map[stackKey]*stack{}
	m.intern(nil, false) // dead
}

// begin begins an operation at a config, and returns its number, which changes if the machine forgets others.
func (m *machine) begin(at int32) int32 {
	m.work = maxWork
	c := m.configs[at]
	if m.items+len(m.stacks) < m.kept && len(m.next) < keptNext {
		return at
	}
	m.clear()
	moved := map[*stack]*stack{nil: nil}
	items := make([]item, len(c.items))
	for i, it := range c.items {
		items[i] = item{it.state, m.move(it.stack, moved)}
	}
	m.kept += 2 * (len(items) + len(m.stacks))
	return m.intern(items, c.ends)
}

// move makes a stack anew.
func (m *machine) move(s *stack, moved map[*stack]*stack) *stack {
	var above []*stack
	for {
		if _, has := moved[s]; has {
			break
		}
		above = append(above, s)
		s = s.below
	}
	t := moved[s]
	for _, s := range slices.Backward(above) {
		t = m.push(s.back, t)
		moved[s] = t
	}
	return t
}

func (m *machine) push(back int32, below *stack) *stack {
	key := stackKey{back, below.number()}
	s := m.stacks[key]
	if s == nil {
		s = &stack{back, below, int32(len(m.stacks) + 1)}
		m.stacks[key] = s
	}
	return s
}

// explore returns the config of items that may be states of any kind.
func (m *machine) explore(from []item) (int32, error) {
	clear(m.seen)
	m.todo = append(m.todo[:0], from...)
	var items []item
	ends := false
	for len(m.todo) > 0 {
		it := m.todo[len(m.todo)-1]
		m.todo = m.todo[:len(m.todo)-1]
		if m.seen[it] {
			continue
		}
		m.seen[it] = true
		if m.work--; m.work < 0 {
			return dead, ErrAmbiguous
		}
		s := &m.states[it.state]
		if s.accepts {
			if it.stack == nil {
				ends = true
			} else {
				m.todo = append(m.todo, item{it.stack.back, it.stack.below})
			}
		}
		reads := false
		for _, e := range s.edges {
			switch e.kind {
			case emptyEdge:
				m.todo = append(m.todo, item{e.to, it.stack})
			case callEdge:
				to := it.stack
				if !m.states[e.to].final {
					to = m.push(e.to, it.stack)
				}
				m.todo = append(m.todo, item{m.rules[e.of], to})
			default:
				reads = true
			}
		}
		if reads {
			items = append(items, it)
		}
	}
	return m.intern(items, ends), nil
}

// intern returns the config of closed items.
func (m *machine) intern(items []item, ends bool) int32 {
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.stack.number(), b.stack.number()))
	})
	m.key = m.key[:0]
	if ends {
		m.key = append(m.key, 1)
	}
	for _, it := range items {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(it.state))
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(it.stack.number()))
	}
	if i, has := m.index[string(m.key)]; has {
		return i
	}
	i := int32(len(m.configs))
	m.index[string(m.key)] = i
	m.configs = append(m.configs, config{items, ends})
	m.items += len(items)
	for range m.num {
		m.next = append(m.next, unknown)
	}
	return i
}

// step returns the config after a byte.
func (m *machine) step(at int32, b byte) (int32, error) {
	i := int(at)*m.num + int(m.class[b])
	if to := m.next[i]; to != unknown {
		return to, nil
	}
	var from []item
	for _, it := range m.configs[at].items {
		for _, e := range m.states[it.state].edges {
			if e.kind == byteEdge && e.lo <= b && b <= e.hi {
				from = append(from, item{e.to, it.stack})
			}
		}
		m.work--
	}
	if m.work < 0 {
		return dead, ErrAmbiguous
	}
	to, err := m.explore(from)
	if err == nil {
		m.next[i] = to
	}
	return to, err
}

// steps returns the config after some bytes.
func (m *machine) steps(at int32, text string) (_ int32, err error) {
	for i := 0; i < len(text) && at != dead && err == nil; i++ {
		at, err = m.step(at, text[i])
	}
	return at, err
}

// join returns the config of the items of two.
func (m *machine) join(a, b int32) int32 {
	switch {
	case a == dead:
		return b
	case b == dead || a == b:
		return a
	}
	x, y := m.configs[a], m.configs[b]
	items := slices.Clone(x.items)
	for _, it := range y.items {
		if !slices.Contains(x.items, it) {
			items = append(items, it)
		}
	}
	return m.intern(items, x.ends || y.ends)
}

// afterToken returns the config after a token as a whole, by the edges of matching elements.
func (m *machine) afterToken(at int32, matches func(of int32) bool) (int32, error) {
	var from []item
	for _, it := range m.configs[at].items {
		for _, e := range m.states[it.state].edges {
			if e.kind == tokenEdge && matches(e.of) {
				from = append(from, item{e.to, it.stack})
			}
		}
	}
	if from == nil {
		return dead, nil
	}
	return m.explore(from)
}
