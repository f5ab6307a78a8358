package jinja

import (
	"math/big"
	"time"
)

// state is the state of one rendering.
type state struct {
	name      string // of the template
	line      int    // of the current node, for errors
	steps     int
	depth     int
	now       time.Time
	out       *textBuilder // current output: the text, or a captured part
	top       *textBuilder // the whole text
	turn      int32        // mark of the dict whose turn is written; 0 if none
	loops     int          // number of open loops
	hasTurn   bool         // the innermost loop is at a marked dict
	generated []Range      // ranges of generation tags
}

func (s *state) fail(format string, args ...any) { fail(s.name, s.line, format, args...) }

// locate adds the template and line to an error without them.
func (s *state) locate(err *error) {
	if e, ok := (*err).(*Error); ok && e.Line == 0 {
		e.Template, e.Line = s.name, s.line
	}
}

// scope holds the names of a block. They are few: a list is faster than a map. Names are looked up from the innermost
// scope outwards.
type scope struct {
	names  []string
	values []Value
	parent *scope
}

func (c *scope) set(name string, v Value) {
	for i, known := range c.names {
		if known == name {
			c.values[i] = v
			return
		}
	}
	c.names, c.values = append(c.names, name), append(c.values, v)
}

func (c *scope) get(name string) (Value, bool) {
	for ; c != nil; c = c.parent {
		for i, known := range c.names {
			if known == name {
				return c.values[i], true
			}
		}
	}
	return nil, false
}

// emit writes output. Bytes without a turn get the current one.
func (s *state) emit(t Text) {
	if len(s.out.b)+len(t.s) > maxText {
		s.chargeText(maxText + 1)
	}
	s.charge(len(t.s) >> 6)
	s.out.addInTurn(t, s.turn)
}

// capture returns what f writes instead of writing it.
func (s *state) capture(f func()) Text {
	outer := s.out
	s.out = &textBuilder{}
	f()
	t := s.out.text()
	s.out = outer
	return t
}

// str is Python's str(), charged.
func (s *state) str(v Value) Text {
	t := str(v)
	s.charge(len(t.s) >> 6)
	return t
}

// needDefined fails if v is undefined.
func (s *state) needDefined(v Value) {
	if u, ok := v.(*undefined); ok {
		if u.unsafe {
			s.fail("%s: the sandbox of templates forbids it", u.what)
		}
		s.fail("%s is undefined", u.what)
	}
}

// needText returns v, which must be a string.
func (s *state) needText(v Value) Text {
	t, ok := v.(Text)
	if !ok {
		s.needDefined(v)
		s.fail("a string expected, got '%s'", TypeName(v))
	}
	return t
}

// needDict returns v, which must be a dict.
func (s *state) needDict(v Value) *Dict {
	d, ok := v.(*Dict)
	if !ok {
		s.needDefined(v)
		s.fail("'%s' object has no attribute 'items'", TypeName(v))
	}
	return d
}

// clampedInt returns an integer clamped to the range of indices.
func (s *state) clampedInt(v Value, what string) int {
	s.needDefined(v)
	i, ok := toInt(v)
	if !ok {
		s.fail("%s must be integers, not '%s'", what, TypeName(v))
	}
	limit := big.NewInt(1 << 40)
	if i.CmpAbs(limit) > 0 {
		return int(limit.Int64()) * i.Sign()
	}
	return int(i.Int64())
}

// iterate returns the items of a value.
func (s *state) iterate(v Value) []Value {
	switch v := v.(type) {
	case *Sequence:
		s.charge(len(v.Items) >> 3)
		return v.Items
	case *generator:
		return v.items()
	case *Dict:
		s.charge(len(v.keys) >> 3)
		return v.keys
	case Text:
		s.charge(len(v.s))
		items := make([]Value, 0, len(v.s))
		v.safe = false
		for i, r := range v.s {
			items = append(items, v.Slice(i, i+len(string(r))))
		}
		return items
	case *undefined:
		return nil
	}
	s.fail("'%s' object is not iterable", TypeName(v))
	return nil
}
