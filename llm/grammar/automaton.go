package grammar

import (
	"errors"
	"fmt"
	"slices"
)

// maxStates bounds the memory of a grammar, which has about 50 bytes for each state.
const maxStates = 1 << 18

// An automaton is a nondeterministic automaton for each rule, over the bytes of UTF-8. An edge may call the automaton of
// another rule, and continue when that one accepts.
type automaton struct {
	states []state
	rules  []int32 // first states
	root   int32   // first state of the text
	tokens []token // of edges
	class  [256]uint8
	num    int // classes: bytes that no edge distinguishes
}

type state struct {
	edges   []edge
	rule    int32
	accepts bool // ends its rule
	final   bool // accepts or leads to such states, and nothing else
}

type edge struct {
	kind   edgeKind
	lo, hi byte  // of bytes
	of     int32 // a rule to call, or a token
	to     int32
}

type edgeKind uint8

const (
	emptyEdge edgeKind = iota
	byteEdge
	callEdge
	tokenEdge
)

// A compiler makes an automaton of rules.
type compiler struct {
	automaton
	rule  int32    // of new states
	queue []expr   // bodies of rules, which grow as the first ones are compiled
	names []string // of the rules
	err   error
}

func compile(rules []expr, names []string, root int) (*automaton, error) {
	c := &compiler{queue: slices.Clone(rules), names: slices.Clone(names)}
	for i := 0; i < len(c.queue) && c.err == nil; i++ {
		c.rule = int32(i)
		first, end := c.state(), c.state()
		c.rules = append(c.rules, first)
		c.states[end].accepts = true
		c.connect(first, c.queue[i], end)
	}
	if c.err != nil {
		return nil, c.err
	}
	c.root = c.rules[root]
	c.classes()
	c.findFinal()
	if r, recursive := c.leftRecursion(); recursive {
		return nil, fmt.Errorf("grammar: the rule %q can begin with itself (left recursion); write it as a repetition, or with itself at the end", c.names[r])
	}
	return &c.automaton, nil
}

// union joins automata by a rule that calls the root of each.
func union(parts []*automaton) (*automaton, error) {
	c := &compiler{}
	first, end := c.state(), c.state()
	c.rules, c.root = []int32{first}, first
	c.states[end].accepts = true
	for _, a := range parts {
		states, rules, tokens := int32(len(c.states)), int32(len(c.rules)), int32(len(c.tokens))
		if int(states)+len(a.states) > maxStates {
			return nil, errTooLarge
		}
		for _, s := range a.states {
			s.rule += rules
			s.edges = slices.Clone(s.edges)
			for i := range s.edges {
				e := &s.edges[i]
				e.to += states
				switch e.kind {
				case callEdge:
					e.of += rules
				case tokenEdge:
					e.of += tokens
				}
			}
			c.states = append(c.states, s)
		}
		for _, r := range a.rules {
			c.rules = append(c.rules, r+states)
		}
		c.tokens = append(c.tokens, a.tokens...)
		c.edge(first, edge{kind: callEdge, of: c.states[a.root+states].rule, to: end})
	}
	c.classes()
	c.findFinal()
	return &c.automaton, nil
}

var errTooLarge = fmt.Errorf("grammar: it needs more than %d states; lower the counts of its repetitions", maxStates)

// state returns a new state.
func (c *compiler) state() int32 {
	if len(c.states) >= maxStates {
		c.err = errTooLarge
		return 0
	}
	c.states = append(c.states, state{rule: c.rule})
	return int32(len(c.states) - 1)
}

func (c *compiler) edge(from int32, e edge) {
	c.states[from].edges = append(c.states[from].edges, e)
}

// connect adds the ways from a state to another one that have the text of an expression between them.
func (c *compiler) connect(from int32, x expr, to int32) {
	if c.err != nil {
		return
	}
	switch x := x.(type) {
	case class:
		c.encode(from, x, to)
	case rule:
		c.edge(from, edge{kind: callEdge, of: int32(x), to: to})
	case token:
		c.tokens = append(c.tokens, x)
		c.edge(from, edge{kind: tokenEdge, of: int32(len(c.tokens) - 1), to: to})
	case choice:
		for _, y := range x {
			c.connect(from, y, to)
		}
	case repeat:
		c.repeat(from, x, to)
	case sequence:
		for i, y := range x {
			next := to
			if i < len(x)-1 {
				next = c.state()
			}
			c.connect(from, y, next)
			from = next
		}
		if len(x) == 0 {
			c.edge(from, edge{to: to})
		}
	}
}

// repeat connects repetitions. A large operand becomes a rule, so that the sizes of nested repetitions add up and do not
// multiply.
func (c *compiler) repeat(from int32, x repeat, to int32) {
	of, copies := x.of, x.max
	if x.max == noLimit {
		copies = x.min + 1
	}
	if copies > 1 && !isSmall(of, copies) {
		c.queue, c.names = append(c.queue, of), append(c.names, c.names[c.rule])
		of = rule(len(c.queue) - 1)
	}
	for range x.min {
		if c.err != nil {
			return
		}
		next := c.state()
		c.connect(from, of, next)
		from = next
	}
	if x.max == noLimit {
		loop := c.state()
		c.edge(from, edge{to: loop})
		c.connect(loop, of, loop)
		c.edge(loop, edge{to: to})
		return
	}
	for range x.max - x.min {
		if c.err != nil {
			return
		}
		next := c.state()
		c.edge(from, edge{to: to})
		c.connect(from, of, next)
		from = next
	}
	c.edge(from, edge{to: to})
}

// isSmall reports whether copies of an expression need few states.
func isSmall(x expr, copies int) bool {
	switch x := x.(type) {
	case rule, token:
		return true
	case class:
		return copies < 4 || x[len(x)-1].hi < 0x80
	}
	return false
}

// encode connects the encodings of a class's code points. Encodings with equal last bytes share states.
func (c *compiler) encode(from int32, x class, to int32) {
	shared := map[string]int32{}
	found := false
	for _, r := range x {
		eachEncoding(r.lo, r.hi, func(ranges []byteRange) {
			found = true
			next := to
			for i := len(ranges) - 1; i > 0; i-- {
				key := fmt.Sprint(ranges[i:])
				before, has := shared[key]
				if !has {
					before = c.state()
					shared[key] = before
					c.edge(before, edge{kind: byteEdge, lo: ranges[i].lo, hi: ranges[i].hi, to: next})
				}
				next = before
			}
			c.edge(from, edge{kind: byteEdge, lo: ranges[0].lo, hi: ranges[0].hi, to: next})
		})
	}
	if !found {
		c.err = errors.New("grammar: a class has no code point that UTF-8 can encode")
	}
}

// classes assigns a number to each byte: the same number to bytes that all edges treat alike.
func (c *compiler) classes() {
	var begins [257]bool
	for _, s := range c.states {
		for _, e := range s.edges {
			if e.kind == byteEdge {
				begins[e.lo], begins[int(e.hi)+1] = true, true
			}
		}
	}
	n := 0
	for b := range 256 {
		if b > 0 && begins[b] {
			n++
		}
		c.class[b] = uint8(n)
	}
	c.num = n + 1
}

// findFinal marks the final states: a call that returns to one needs no return.
func (c *compiler) findFinal() {
	seen := make([]bool, len(c.states))
	var visit func(i int32) bool
	visit = func(i int32) bool {
		s := &c.states[i]
		if seen[i] {
			return s.final
		}
		seen[i] = true
		final := s.accepts || len(s.edges) > 0
		for _, e := range s.edges {
			final = final && e.kind == emptyEdge && visit(e.to)
		}
		s.final = final
		return final
	}
	for i := range c.states {
		visit(int32(i))
	}
}

// leftRecursion returns a rule that can call itself before a byte.
func (c *compiler) leftRecursion() (int, bool) {
	calls := c.firstCalls()
	const inProgress, done = 1, 2
	marks := make([]uint8, len(c.rules))
	type visit struct{ rule, next int }
	for r := range c.rules {
		if marks[r] != 0 {
			continue
		}
		marks[r] = inProgress
		for path := []visit{{r, 0}}; len(path) > 0; {
			v := &path[len(path)-1]
			if v.next == len(calls[v.rule]) {
				marks[v.rule] = done
				path = path[:len(path)-1]
				continue
			}
			to := int(calls[v.rule][v.next])
			v.next++
			switch marks[to] {
			case inProgress:
				return to, true
			case 0:
				marks[to] = inProgress
				path = append(path, visit{to, 0})
			}
		}
	}
	return 0, false
}

// firstCalls lists the rules that each rule can call before a byte. A state after a call is reached once the called rule is
// found to accept the empty text.
func (c *compiler) firstCalls() [][]int32 {
	calls, reached := make([][]int32, len(c.rules)), make([]bool, len(c.states))
	isEmpty, waiting := make([]bool, len(c.rules)), make([][]int32, len(c.rules))
	todo := slices.Clone(c.rules)
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reached[at] {
			continue
		}
		reached[at] = true
		s := c.states[at]
		if s.accepts && !isEmpty[s.rule] {
			isEmpty[s.rule] = true
			todo = append(todo, waiting[s.rule]...)
		}
		for _, e := range s.edges {
			switch e.kind {
			case emptyEdge:
				todo = append(todo, e.to)
			case callEdge:
				calls[s.rule] = append(calls[s.rule], e.of)
				if isEmpty[e.of] {
					todo = append(todo, e.to)
				} else {
					waiting[e.of] = append(waiting[e.of], e.to)
				}
			}
		}
	}
	return calls
}
