package chat

import "time"

// What a rendering may use. A template from the network is a program: it gets an error instead of the machine.
const (
	maxSteps = 20_000_000 // evaluated nodes, and one for each 64 bytes of text made
	maxText  = 64 << 20   // bytes of one text
	maxDepth = 200        // calls of macros in one another
	maxRange = 100_000    // items of a range, as Jinja's sandbox has it
)

// scope holds the names of one block, which are few: a list is faster than a map. A name is looked up from the inside
// to the outside.
type scope struct {
	names  []string
	values []value
	parent *scope
}

func (c *scope) set(name string, v value) {
	for i, known := range c.names {
		if known == name {
			c.values[i] = v
			return
		}
	}
	c.names, c.values = append(c.names, name), append(c.values, v)
}

func (c *scope) get(name string) (value, bool) {
	for ; c != nil; c = c.parent {
		for i, known := range c.names {
			if known == name {
				return c.values[i], true
			}
		}
	}
	return nil, false
}

// state is one rendering.
type state struct {
	template  *Template
	line      int // of what is evaluated, for errors
	steps     int
	depth     int
	now       time.Time
	out       *textBuilder // what is written now: the text, or a part of it that is captured
	top       *textBuilder // the text
	turn      int32        // the message whose turn is written, from 1; 0 outside
	loops     int          // how many are open
	hasTurn   bool         // the innermost loop is at a message
	generated []byteRange  // by generation tags
}

type byteRange struct{ from, to int }

func (s *state) fail(format string, args ...any) { fail(s.template.name, s.line, format, args...) }

// locate gives an error its place, if what found it did not know that.
func (s *state) locate(err *error) {
	if e, ok := (*err).(*Error); ok && e.Line == 0 {
		e.Template, e.Line = s.template.name, s.line
	}
}

// charge counts work against the limit.
func (s *state) charge(n int) {
	s.steps += n
	if s.steps > maxSteps || n < 0 {
		s.fail("the template does not come to an end: more than %d steps", maxSteps)
	}
}

// chargeText counts a text of n bytes that is about to be made.
func (s *state) chargeText(n int) {
	if n > maxText || n < 0 {
		s.fail("a text of more than %d MB", maxText>>20)
	}
	s.charge(n >> 6)
}

// emit writes what the template puts out. Bytes without a message are of the turn that is written.
func (s *state) emit(t text) {
	if len(s.out.b)+len(t.s) > maxText {
		s.chargeText(maxText + 1)
	}
	s.charge(len(t.s) >> 6)
	t.eachRun(0, len(t.s), func(chunk string, o origin) { s.out.write(chunk, o.inTurn(s.turn)) })
}

// capture gives what f writes instead of writing it.
func (s *state) capture(f func()) text {
	outer := s.out
	s.out = &textBuilder{}
	f()
	t := s.out.text()
	s.out = outer
	return t
}

// needDefined fails if v is undefined.
func (s *state) needDefined(v value) {
	if u, ok := v.(*undefined); ok {
		if u.unsafe {
			s.fail("%s: the sandbox of templates forbids it", u.what)
		}
		s.fail("%s is undefined", u.what)
	}
}

// iterate gives the items of a value.
func (s *state) iterate(v value) []value {
	switch v := v.(type) {
	case *sequence:
		s.charge(len(v.items) >> 3)
		return v.items
	case *generator:
		return v.items()
	case *mapping:
		s.charge(len(v.keys) >> 3)
		return v.keys
	case text:
		s.charge(len(v.s))
		items := make([]value, 0, len(v.s))
		v.safe = false
		for i, r := range v.s {
			items = append(items, v.slice(i, i+len(string(r))))
		}
		return items
	case *undefined:
		return nil
	}
	s.fail("'%s' object is not iterable", typeName(v))
	return nil
}

// messageOf is the message that a value is, or that one of a tuple's items is; 0 for none.
func messageOf(v value) int32 {
	switch v := v.(type) {
	case *mapping:
		return v.message
	case *sequence:
		if v.kind != tupleKind {
			return 0
		}
		for _, item := range v.items {
			if m, ok := item.(*mapping); ok && m.message != 0 {
				return m.message
			}
		}
	}
	return 0
}
